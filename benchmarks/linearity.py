#!/usr/bin/env python3
"""How time and memory of a training step of our LSTM grow with T, L and B: a table, a CSV and a plot.

  cmake --preset cpu -DTL_BUILD_BENCHMARKS=ON && cmake --build --preset cpu --target turbolstm_rnn_bench
  python benchmarks/linearity.py                                # needs matplotlib; results in benchmarks/results/
  python benchmarks/linearity.py --run-with "chrt -f 1"         # where other work disturbs (as root)

One size moves, the others stay at the base shape. Every point is measured in a process of its own, so that its peak
memory is its own, in several rounds; the fastest round's median counts. `growth` is the factor since the line before
over the factor of the size: 1.00 is linear.
"""

import argparse
import csv
import datetime
import json
import pathlib
import shlex
import subprocess
import sys
import tempfile

import compare

BASE = {"T": 100, "B": 32, "I": 128, "H": 128, "L": 1}
SWEEPS = {
    "T": [50, 100, 200, 400, 800, 1600],
    "L": [1, 2, 4, 8],
    "B": [1, 2, 4, 8, 16, 32, 64, 128, 256],
}
FIELDS = ("size", *BASE, "precision", "median_ms", "peak_memory_mib")


def arguments():
    parser = argparse.ArgumentParser(description="Growth of our LSTM's training step with T, L and B.")
    parser.add_argument("--ours", type=pathlib.Path, default=compare.BUILD / "turbolstm_rnn_bench", help="our program")
    parser.add_argument("--precision", action="append", choices=("fp32", "bf16"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--min-time", type=float, default=0.3, help="least seconds per measurement and round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--run-with", default="", help='command to put before every program, for example "chrt -f 1"')
    parser.add_argument("--output", type=pathlib.Path, default=compare.HERE / "results", help="folder of the CSV and the plot")
    options = parser.parse_args()
    options.precision = options.precision or ["fp32"]
    return options


def measure(shape, precision, options):
    """Median in ms and peak memory in MiB of a training step, of the fastest round."""
    with tempfile.TemporaryDirectory() as folder:
        shapes, answer = pathlib.Path(folder, "shapes.json"), pathlib.Path(folder, "answer.json")
        shapes.write_text(json.dumps({"cells": ["lstm"], "shapes": [shape]}))
        command = [*shlex.split(options.run_with), str(options.ours), "--shapes", str(shapes), "--json", str(answer)]
        command += ["--precision", precision, "--pass", "train", "--threads", str(options.threads)]
        subprocess.run([*command, "--min-time", str(options.min_time)], check=True)
        return json.loads(answer.read_text())["results"][0]


def sweep(options):
    rows = {}
    for _ in range(options.rounds):
        for precision in options.precision:
            for size, values in SWEEPS.items():
                for value in values:
                    shape = {**BASE, size: value}
                    result = measure(shape, precision, options)
                    row = {"size": size, **shape, "precision": precision}
                    row |= {key: result[key] for key in ("median_ms", "peak_memory_mib")}
                    key = (precision, size, value)
                    if key not in rows or row["median_ms"] < rows[key]["median_ms"]:
                        rows[key] = row
    return list(rows.values())


def series(rows):
    """Rows of one precision and size together, in order."""
    groups = {}
    for row in rows:
        groups.setdefault((row["precision"], row["size"]), []).append(row)
    return groups


def print_table(rows):
    for (precision, size), group in series(rows).items():
        rest = ", ".join(f"{k}={v}" for k, v in BASE.items() if k != size)
        print(f"\n{precision}, {size} grows, {rest}")
        print(f"{size:>6} {'ms':>9} {'growth':>7} {'MiB':>9} {'growth':>7}")
        before = None
        for row in group:
            cells = []
            for key in ("median_ms", "peak_memory_mib"):
                factor = row[key] / before[key] / (row[size] / before[size]) if before and before[key] else None
                cells += [f"{row[key]:9.2f}", f"{compare.text(factor, '7.2f'):>7}"]
            print(f"{row[size]:6} " + " ".join(cells))
            before = row


def write_csv(path, rows, options):
    words = [pathlib.Path(a).name if a.startswith("/") else a for a in sys.argv[1:]]
    provenance = {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "commit": compare.commit(),
        "cpu": compare.cpu_name(),
        "threads": options.threads,
        "rounds": options.rounds,
        "command": shlex.join(["benchmarks/linearity.py", *words]),
    }
    with path.open("w", newline="") as file:
        file.writelines(f"# {key}: {value}\n" for key, value in provenance.items())
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({k: float(f"{v:.5g}") if isinstance(v, float) else v for k, v in row.items()})


def plot(path, rows):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    labels = {"median_ms": "time of a training step, ms", "peak_memory_mib": "peak memory, MiB"}
    figure, axes = plt.subplots(len(labels), len(SWEEPS), figsize=(4 * len(SWEEPS), 3.4 * len(labels)), squeeze=False)
    for (precision, size), group in series(rows).items():
        column = list(SWEEPS).index(size)
        sizes = [row[size] for row in group]
        for axis, key in zip(axes[:, column], labels):
            (line,) = axis.loglog(sizes, [row[key] for row in group], "o-", label=f"{precision}")
            last = group[-1]
            axis.loglog(sizes, [last[key] * s / last[size] for s in sizes], ":", color=line.get_color(), label="proportional")
            axis.set_xlabel(size)
            axis.set_xticks(sizes, sizes)
            axis.minorticks_off()
            axis.set_ylabel(labels[key])
            axis.grid(True, which="both", alpha=0.3)
            axis.legend()
    rest = ", ".join(f"{k}={v}" for k, v in BASE.items())
    figure.suptitle(f"LSTM, one size moves, the others: {rest}")
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main():
    options = arguments()
    rows = sweep(options)
    print(f"{compare.cpu_name()}, {options.threads} threads, commit {compare.commit()}")
    print_table(rows)
    options.output.mkdir(parents=True, exist_ok=True)
    stem = options.output / datetime.date.today().strftime("linearity-cpu-%Y%m%d")
    write_csv(stem.with_suffix(".csv"), rows, options)
    plot(stem.with_suffix(".png"), rows)
    print(f"\nwritten: {stem}.csv, {stem}.png")


if __name__ == "__main__":
    main()
