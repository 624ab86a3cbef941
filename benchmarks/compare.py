#!/usr/bin/env python3
"""Runs our recurrent benchmark, PyTorch's and oneDNN's in turn on the same machine and compares them.

  cmake --preset cpu -DTL_BUILD_BENCHMARKS=ON && cmake --build --preset cpu
  pip install -r benchmarks/requirements.txt
  python benchmarks/compare.py                        # everything, results in benchmarks/results/
  python benchmarks/compare.py --case lstm_T100_B32_I128_H128_L1 --pass train --precision fp32

Case by case the programs follow each other, and the whole list is repeated (--rounds), so that a slow minute of the
machine hits all of them. A measurement's median is the median of its rounds' medians. The rival's best counts: for
oneDNN the fastest of the given builds, for ragged batches PyTorch with packing inside the timed part ("packed"), since
our program, too, takes padded batches; the CSV has every variant.
"""

import argparse
import csv
import datetime
import json
import os
import pathlib
import platform
import shlex
import statistics
import subprocess
import sys
import tempfile

from harness_cases import read_cases
from harness_results import CASE_FIELDS, RUN_FIELDS, VALUE_FIELDS, command_line, commit, geometric_mean, rounded, text
from harness_results import write_provenance

HERE = pathlib.Path(__file__).resolve().parent
BUILD = HERE.parent / "build" / "cpu" / "benchmarks"
OURS, PYTORCH, ONEDNN = "TurboLSTM", "PyTorch", "oneDNN"


def arguments():
    parser = argparse.ArgumentParser(description="Compares ours, PyTorch and oneDNN.")
    parser.add_argument("--shapes", type=pathlib.Path, default=HERE / "shapes.json")
    parser.add_argument("--ours", type=pathlib.Path, default=BUILD / "turbolstm_rnn_bench", help="our program")
    parser.add_argument("--onednn", type=pathlib.Path, action="append", help="oneDNN's program (may be repeated)")
    parser.add_argument("--python", default=sys.executable, help="interpreter that has PyTorch")
    parser.add_argument("--case", action="append", help="only this case (may be repeated)")
    parser.add_argument("--precision", action="append", choices=("fp32", "bf16"))
    parser.add_argument("--pass", dest="passes", action="append", choices=("forward", "train"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--min-time", type=float, default=0.5, help="least seconds per measurement and round")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--run-with", default="", help='command to put before every program, for example "chrt -f 1"')
    parser.add_argument("--output", type=pathlib.Path, default=HERE / "results", help="folder of the CSV and the plot")
    options = parser.parse_args()
    options.onednn = options.onednn or [BUILD / "onednn_rnn"]
    options.precision = options.precision or ["fp32", "bf16"]
    return options


def programs(options):
    """Command prefixes by label; programs that were not built are left out and named."""
    found = {}
    candidates = [(OURS, [options.ours])] + [(f"{ONEDNN} {n}", [path]) for n, path in enumerate(options.onednn)]
    for label, command in candidates:
        if command[0].exists():
            found[label] = [str(command[0])]
        else:
            print(f"left out: {command[0]} is not built", file=sys.stderr)
    found[PYTORCH] = [options.python, str(HERE / "baselines" / "pytorch_cpu.py")]
    return found


def run(command, options, *extra):
    """The JSON of one run of a program."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        line = [*shlex.split(options.run_with), *command, "--shapes", str(options.shapes), "--json", file.name]
        line += ["--threads", str(options.threads), "--min-time", str(options.min_time), *extra]
        for flag, values in (("--precision", options.precision), ("--pass", options.passes)):
            line += [part for value in values or () for part in (flag, value)]
        subprocess.run(line, check=True, env={**os.environ, "OMP_NUM_THREADS": str(options.threads)})
        return json.loads(pathlib.Path(file.name).read_text())


def case_names(options):
    known = [case["case"] for case in read_cases(options.shapes)]
    for name in options.case or ():
        if name not in known:
            sys.exit(f"[--case] {name} is not in {options.shapes}")
    return options.case or known


def merge(entries):
    """One result from a measurement's rounds."""
    merged = dict(entries[0])
    if "median_ms" in merged:
        merged["runs"] = sum(e["runs"] for e in entries)
        merged["median_ms"] = statistics.median(e["median_ms"] for e in entries)
        merged["min_ms"] = min(e["min_ms"] for e in entries)
        merged["q1_ms"] = min(e["q1_ms"] for e in entries)
        merged["q3_ms"] = max(e["q3_ms"] for e in entries)
        if "peak_memory_mib" in merged:
            merged["peak_memory_mib"] = max(e.get("peak_memory_mib", 0) for e in entries)
    return merged


def measure_all(options):
    """Merged results by (implementation, version, case, precision, pass, variant), and the machine's peak rates."""
    rounds, peaks = {}, []
    commands = programs(options)
    for label, command in commands.items():
        if label != OURS:
            peaks += run(command, options, "--peak")["peaks"]
    for number in range(options.rounds):
        for name in case_names(options):
            for command in commands.values():
                report = run(command, options, "--case", name)
                for entry in report["results"]:
                    key = (report["implementation"], report["version"], *(entry[f] for f in ("case", *RUN_FIELDS)))
                    rounds.setdefault(key, []).append(entry)
            print(f"round {number + 1}: {name}", file=sys.stderr, flush=True)
    return {key: merge(entries) for key, entries in rounds.items()}, peaks


def fastest(results, implementation, case, precision, step, variants):
    """The implementation's fastest result in one of the variants, or None."""
    fitting = [
        entry
        for (name, _, c, p, s, variant), entry in results.items()
        if (name, c, p, s) == (implementation, case, precision, step) and variant in variants and "median_ms" in entry
    ]
    return min(fitting, key=lambda entry: entry["median_ms"], default=None)


def rows_of(results):
    """One row a case, precision and pass: the three implementations beside each other."""
    keys = dict.fromkeys(key[2:5] for key in results)
    for case, precision, step in keys:
        yield {
            "case": case,
            "precision": precision,
            "pass": step,
            OURS: fastest(results, OURS, case, precision, step, ("", "padded", "packed")),
            PYTORCH: fastest(results, PYTORCH, case, precision, step, ("", "packed")),
            ONEDNN: fastest(results, ONEDNN, case, precision, step, ("", "padded")),
        }


def speedup(row, rival, over):
    if rival == over or not row[rival] or not row[over]:
        return None
    return row[rival]["median_ms"] / row[over]["median_ms"]


def print_table(rows, best_rate, subject):
    """`subject`: whose ratios and rate are shown (ours, or PyTorch's when ours is not built)."""
    print(f"times: median (min) in ms; ratios: how many times {subject} is faster; rate: {subject}'s GFLOP/s, its part of "
          "the machine's best large matrix product; memory: peak of a training step in MiB")
    names = (OURS, PYTORCH, ONEDNN)
    print(f"{'case':38} {'':4} {'':7} " + " ".join(f"{n:>19}" for n in names) + "  /PyTorch  /oneDNN   rate      %  memory")
    for row in rows:
        cells = [f"{row[n]['median_ms']:9.2f} ({row[n]['min_ms']:7.2f})" if row[n] else "-" for n in names]
        rate = row[subject]["gflop"] / row[subject]["median_ms"] * 1e3 if row[subject] else None
        share = rate / best_rate[row["precision"]] * 100 if rate and best_rate.get(row["precision"]) else None
        memory = "/".join(text((row[n] or {}).get("peak_memory_mib"), ".0f") for n in names) if row["pass"] == "train" else ""
        print(
            f"{row['case']:38} {row['precision']:4} {row['pass']:7} " + " ".join(f"{c:>19}" for c in cells)
            + f"  {text(speedup(row, PYTORCH, subject), '8.2f'):>8} {text(speedup(row, ONEDNN, subject), '8.2f'):>8}"
            + f" {text(rate, '6.0f'):>6} {text(share, '6.0f'):>6}  {memory}"
        )


def print_means(rows, subject):
    for precision in dict.fromkeys(row["precision"] for row in rows):
        for step in dict.fromkeys(row["pass"] for row in rows):
            for cell in ("lstm", "gru"):
                for rival in {PYTORCH, ONEDNN} - {subject}:
                    chosen = [r for r in rows if (r["precision"], r["pass"], r["case"].split("_")[0]) == (precision, step, cell)]
                    ratios = [s for s in (speedup(r, rival, subject) for r in chosen) if s]
                    if ratios:
                        print(f"geometric mean, {cell} {precision} {step}: {geometric_mean(ratios):.3f} times {rival}'s speed over "
                              f"{len(ratios)} cases, lowest {min(ratios):.2f}")


def cpu_name():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def write_csv(path, results, peaks, options):
    """One measurement a line after comment lines (#) that say where the numbers come from."""
    provenance = {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "commit": commit(),
        "cpu": cpu_name(),
        "threads": options.threads,
        "rounds": options.rounds,
        "command": command_line("compare.py"),
    }
    for peak in peaks:
        provenance[f"large product, {peak['precision']}, {peak['what']}"] = f"{peak['gflops']:.0f} GFLOP/s"
    fields = ["implementation", "version", *CASE_FIELDS, *RUN_FIELDS, *VALUE_FIELDS]
    with path.open("w", newline="") as file:
        write_provenance(file, provenance)
        writer = csv.DictWriter(file, fields, restval="", extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        for (implementation, version, *_), entry in results.items():
            writer.writerow({"implementation": implementation, "version": version, **rounded(entry)})


def plot(path, rows, subject):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rivals = [name for name in (PYTORCH, ONEDNN) if name != subject]
    panels = list(dict.fromkeys((row["precision"], row["pass"]) for row in rows))
    cases = list(dict.fromkeys(row["case"] for row in rows))
    figure, axes = plt.subplots(1, len(panels), figsize=(2 + 4 * len(panels), 1.5 + 0.32 * len(cases)), sharey=True, squeeze=False)
    for axis, (precision, step) in zip(axes[0], panels):
        for offset, rival in zip((-0.2, 0.2), rivals):
            ratios = {r["case"]: speedup(r, rival, subject) for r in rows if (r["precision"], r["pass"]) == (precision, step)}
            axis.barh([i + offset for i in range(len(cases))], [ratios.get(c) or 0 for c in cases], 0.38, label=f"over {rival}")
        axis.axvline(1, color="black", linewidth=0.8)
        axis.set_title(f"{step}, {precision}")
        axis.set_xlabel(f"times {subject} is faster")
    axes[0][0].set_yticks(range(len(cases)), cases)
    axes[0][0].invert_yaxis()
    axes[0][0].legend()
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main():
    options = arguments()
    results, peaks = measure_all(options)
    rows = list(rows_of(results))
    best_rate = {}
    for peak in peaks:
        best_rate[peak["precision"]] = max(peak["gflops"], best_rate.get(peak["precision"], 0))
    subject = OURS if any(row[OURS] for row in rows) else PYTORCH
    versions = ", ".join(sorted({f"{key[0]} {key[1]}" for key in results}))
    print(f"{cpu_name()}, {options.threads} threads; {versions}")
    for precision, rate in best_rate.items():
        what = max((p for p in peaks if p["precision"] == precision), key=lambda p: p["gflops"])["what"]
        print(f"best large matrix product, {precision}: {rate:.0f} GFLOP/s ({what})")
    print_table(rows, best_rate, subject)
    print_means(rows, subject)
    options.output.mkdir(parents=True, exist_ok=True)
    stem = options.output / datetime.date.today().strftime("rnn-cpu-%Y%m%d")
    write_csv(stem.with_suffix(".csv"), results, peaks, options)
    plot(stem.with_suffix(".png"), rows, subject)
    print(f"written: {stem}.csv, {stem}.png")


if __name__ == "__main__":
    main()
