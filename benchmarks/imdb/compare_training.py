#!/usr/bin/env python3
"""Trains the classifier of a config with ours and with PyTorch, from the same parameters on the same batches in the
same order, and compares held-out accuracy and seconds per epoch. See benchmarks/README.md.

  cmake --preset cpu -DTL_BUILD_BENCHMARKS=ON && cmake --build --preset cpu --target turbolstm export_training
  pip install -r benchmarks/requirements.txt
  python benchmarks/imdb/compare_training.py data.path=/where/aclImdb

Before the training, the losses of the first batches without dropout are compared: they must agree to LOSS_TOLERANCE.
Whole runs follow each other; --rounds repeats the list (ours give the same bits each time, PyTorch with other dropout
masks), so that a slow minute of the machine does not decide.
"""

import argparse
import csv
import datetime
import json
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
BENCHMARKS, ROOT = HERE.parent, HERE.parent.parent
sys.path.insert(0, str(BENCHMARKS))
from compare import commit, cpu_name  # noqa: E402

BUILD = ROOT / "build" / "cpu"
OURS, PYTORCH = "TurboLSTM", "PyTorch"
LOSS_TOLERANCE = 1e-4
ACCURACY_TOLERANCE = 0.005
EPOCH_FIELDS = ("train_loss", "held_out_loss", "held_out_accuracy", "seconds", "evaluation_seconds")


def arguments():
    parser = argparse.ArgumentParser(description="Compares training with ours and with PyTorch.")
    parser.add_argument("overrides", nargs="*", help="section.key=value, for all runs")
    parser.add_argument("--config", type=pathlib.Path, default=ROOT / "examples" / "sentiment" / "imdb.toml")
    parser.add_argument("--ours", type=pathlib.Path, default=BUILD / "src" / "cli" / "turbolstm")
    parser.add_argument("--export", type=pathlib.Path, default=BUILD / "benchmarks" / "export_training")
    parser.add_argument("--python", default=sys.executable, help="interpreter that has PyTorch")
    parser.add_argument("--precision", action="append", choices=("fp32", "bf16"), help="of ours; default fp32")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=20, help="batches whose losses are compared; 0: none")
    parser.add_argument("--run-with", default="", help='command to put before every program, for example "chrt -f 1"')
    parser.add_argument("--output", type=pathlib.Path, default=BENCHMARKS / "results", help="folder of the CSV and the plot")
    options = parser.parse_args()
    options.precision = options.precision or ["fp32"]
    options.overrides += [f"train.threads={options.threads}", "train.device=cpu"]
    return options


def run(options, *command):
    line = [*shlex.split(options.run_with), *map(str, command)]
    subprocess.run(line, check=True, env={**os.environ, "OMP_NUM_THREADS": str(options.threads)})


def export(options, folder, *extra):
    run(options, options.export, options.config, *options.overrides, *extra, "--output", folder)


def run_pytorch(options, data, *extra):
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        script = BENCHMARKS / "baselines" / "pytorch_imdb.py"
        run(options, options.python, script, "--data", data, "--threads", options.threads, "--json", file.name, *extra)
        return json.loads(pathlib.Path(file.name).read_text())


def run_ours(options, folder, precision):
    overrides = [*options.overrides, f"model.precision={precision}", f"output.directory={folder}"]
    run(options, options.ours, "train", "--force", options.config, *overrides)
    with (folder / "log.csv").open() as file:
        return [{key: float(row[key]) for key in ("epoch", *EPOCH_FIELDS)} for row in csv.DictReader(file)]


def largest_loss_difference(options, folder):
    """Over the first batches without dropout, and all losses of both."""
    export(options, folder, "model.dropout=0", "train.epochs=1", "--steps", options.steps)
    ours = json.loads((folder / "steps.json").read_text())["losses"]
    losses = {OURS: ours, PYTORCH: run_pytorch(options, folder, "--steps", options.steps, "--variant", "padded")["losses"]}
    return max(abs(a - b) for a, b in zip(losses[OURS], losses[PYTORCH], strict=True)), losses


def train_all(options, folder):
    """Epochs by (implementation, precision), one list a round; and PyTorch's own report."""
    epochs = {}
    export(options, folder / "batches")
    for number in range(options.rounds):
        for precision in options.precision:
            ours = run_ours(options, folder / f"ours-{precision}", precision)
            epochs.setdefault((OURS, precision), []).append(ours)
        report = run_pytorch(options, folder / "batches", "--seed", number + 1)
        epochs.setdefault((PYTORCH, "fp32"), []).append(report["epochs"])
    return epochs, report


def seconds_per_epoch(rounds, *fields):
    return statistics.median(sum(epoch[f] for f in fields) for epochs in rounds for epoch in epochs)


def final_accuracy(rounds):
    return statistics.fmean(epochs[-1]["held_out_accuracy"] for epochs in rounds)


def summary(epochs):
    """Lines of text: accuracy behind each epoch (mean over the rounds) and seconds, ours against PyTorch's."""
    for (name, precision), rounds in epochs.items():
        accuracies = [statistics.fmean(e["held_out_accuracy"] for e in column) for column in zip(*rounds)]
        training, whole = (seconds_per_epoch(rounds, *f) for f in (("seconds",), ("seconds", "evaluation_seconds")))
        yield (f"{name:10} {precision}: accuracy {' '.join(f'{a:.4f}' for a in accuracies)}; seconds per epoch "
               f"{training:.1f}, with evaluation {whole:.1f}")
    rival = epochs[PYTORCH, "fp32"]
    for (name, precision), rounds in epochs.items():
        if name == OURS:
            difference = final_accuracy(rounds) - final_accuracy(rival)
            verdict = "within" if abs(difference) <= ACCURACY_TOLERANCE else "NOT within"
            speedup = seconds_per_epoch(rival, "seconds") / seconds_per_epoch(rounds, "seconds")
            yield (f"ours {precision}: accuracy {100 * difference:+.2f} points from PyTorch's at the end ({verdict} "
                   f"{100 * ACCURACY_TOLERANCE:.1f}), an epoch's training {speedup:.2f} times as fast")


def provenance(options, report, difference):
    shown = [pathlib.Path(a).name if a.startswith("/") else a for a in sys.argv[1:] if not a.startswith("data.path=")]
    lines = {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "commit": commit(),
        "cpu": cpu_name(),
        "threads": options.threads,
        "command": shlex.join(["benchmarks/imdb/compare_training.py", "data.path=aclImdb", *shown]),
        "PyTorch": f"{report['version']}, {report['variant']} batches (a few steps of each: "
        + ", ".join(f"{v} {s:.2f} s" for v, s in report["variant_seconds"].items()) + ")",
    }
    if difference is not None:
        lines[f"largest difference of the first {options.steps} losses without dropout"] = f"{difference:.2g}"
    return lines


def write_csv(path, head, epochs):
    """One epoch a line after comment lines (#) that say where the numbers come from."""
    with path.open("w", newline="") as file:
        file.writelines(f"# {key}: {value}\n" for key, value in head.items())
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("implementation", "precision", "round", "epoch", *EPOCH_FIELDS))
        for (name, precision), rounds in epochs.items():
            for number, run_epochs in enumerate(rounds):
                for epoch in run_epochs:
                    values = (f"{epoch[field]:.5g}" for field in EPOCH_FIELDS)
                    writer.writerow((name, precision, number + 1, int(epoch["epoch"]), *values))


def plot(path, epochs):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), width_ratios=(2, 1))
    labels = [f"{name} {precision}" for name, precision in epochs]
    for index, rounds in enumerate(epochs.values()):
        for number, run_epochs in enumerate(rounds):
            left.plot([int(e["epoch"]) for e in run_epochs], [100 * e["held_out_accuracy"] for e in run_epochs],
                      marker="ox"[index % 2], linestyle=("-", "--")[index % 2], color=f"C{index}",
                      label=labels[index] if number == 0 else None)
        bar = right.bar(index, seconds_per_epoch(rounds, "seconds"), color=f"C{index}")
        right.bar_label(bar, fmt="%.1f")
    left.set(xlabel="epoch", ylabel="held-out accuracy, %")
    left.xaxis.get_major_locator().set_params(integer=True)
    left.legend()
    right.set_xticks(range(len(labels)), [label.replace(" ", "\n") for label in labels])
    right.set_ylabel("seconds per epoch, training")
    right.margins(y=0.12)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main():
    options = arguments()
    difference = None
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        if options.steps:
            difference, losses = largest_loss_difference(options, folder / "steps")
            print(f"first {options.steps} losses without dropout, ours / PyTorch's:")
            print("  " + ", ".join(f"{a:.6f}/{b:.6f}" for a, b in zip(*losses.values())))
            print(f"  largest difference {difference:.2g}, wanted at most {LOSS_TOLERANCE:g}", flush=True)
            if difference > LOSS_TOLERANCE:
                sys.exit("the two do not compute the same thing: no training")
        epochs, report = train_all(options, folder)
    print("\n".join(summary(epochs)))
    options.output.mkdir(parents=True, exist_ok=True)
    stem = options.output / datetime.date.today().strftime("imdb-cpu-%Y%m%d")
    write_csv(stem.with_suffix(".csv"), provenance(options, report, difference), epochs)
    plot(stem.with_suffix(".png"), epochs)
    print(f"written: {stem}.csv, {stem}.png")


if __name__ == "__main__":
    main()
