#!/usr/bin/env python3
"""turbolstm.torch's layers against torch.nn's on the CPU, in fp32, at the shapes of shapes.json.

    python benchmarks/python_layers.py [--case NAME].. [--rounds 3] [--min-time 0.3] [--csv FILE]

Both run in processes of their own, in turn, case by case and round by round; the medians of a round are compared, and
the median of their ratios is reported. A training step is forward, then backward to every weight and the input, for the
gradient of y. Ragged batches come padded: PyTorch packs and unpacks them, ours takes lengths.
"""

import argparse
import csv
import math
import os
import pathlib
import statistics
import subprocess
import sys
import time

from harness_cases import lengths_of, read_cases, serve

SHAPES = pathlib.Path(__file__).with_name("shapes.json")
PASSES = ("forward", "train")
WARM_UPS, FEWEST_RUNS = 3, 5


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--case", action="append", help="run only the case of this name (may be repeated)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--min-time", type=float, default=0.3, help="least seconds per measurement")
    parser.add_argument("--csv", type=pathlib.Path)
    parser.add_argument("--serve", choices=("PyTorch", "TurboLSTM"), help=argparse.SUPPRESS)
    return parser.parse_args()


def steps(torch, which, case):
    """The functions to time, by pass."""
    from baselines.pytorch_passes import pass_of_layer

    if which == "PyTorch":
        module = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}[case["cell"]]
    else:
        import turbolstm.torch

        module = {"lstm": turbolstm.torch.LSTM, "gru": turbolstm.torch.GRU}[case["cell"]]
    net = module(case["I"], case["H"], case["L"], bidirectional=case["bidirectional"])
    x = torch.randn(case["T"], case["B"], case["I"], requires_grad=True)
    gradient = torch.randn(case["T"], case["B"], case["H"] * (1 + case["bidirectional"]))
    lengths = torch.tensor(lengths_of(case))

    def call():
        if case["lengths"] == "full":
            return net(x)[0]
        if which == "TurboLSTM":
            return net(x, lengths=lengths)[0]
        rnn = torch.nn.utils.rnn
        packed = rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
        return rnn.pad_packed_sequence(net(packed)[0], total_length=case["T"])[0]

    return {name: pass_of_layer(name, net, x, gradient, call) for name in PASSES}


def median_ms(step, min_seconds):
    for _ in range(WARM_UPS):
        step()
    times = []
    while len(times) < FEWEST_RUNS or sum(times) < min_seconds:
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3


def run_served(options):
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    import torch

    torch.set_num_threads(options.threads)

    def measure(case, precision):
        return [{"pass": n, "ms": median_ms(s, options.min_time)} for n, s in steps(torch, options.serve, case).items()]

    serve({"implementation": options.serve, "version": torch.__version__}, read_cases(SHAPES), measure)


class Program:
    def __init__(self, which, options):
        command = [sys.executable, __file__, "--serve", which, "--threads", str(options.threads)]
        command += ["--min-time", str(options.min_time)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.version = self.answer()["version"]

    def answer(self):
        import json

        return json.loads(self.process.stdout.readline())

    def measure(self, case):
        print(case, "fp32", file=self.process.stdin, flush=True)
        return {result["pass"]: result["ms"] for result in self.answer()["results"]}


def main():
    options = arguments()
    if options.serve:
        return run_served(options)
    theirs, ours = Program("PyTorch", options), Program("TurboLSTM", options)
    print(f"PyTorch {theirs.version}, {options.threads} threads")
    rows, ratios = [], {}
    for case in read_cases(SHAPES):
        if options.case and case["case"] not in options.case:
            continue
        rounds = [(theirs.measure(case["case"]), ours.measure(case["case"])) for _ in range(options.rounds)]
        row = {"case": case["case"]}
        for name in PASSES:
            ratio = statistics.median(a[name] / b[name] for a, b in rounds)
            ratios.setdefault((case["cell"], name), []).append(ratio)
            for who, index in (("pytorch", 0), ("turbolstm", 1)):
                row[f"{name}_{who}_ms"] = f"{statistics.median(r[index][name] for r in rounds):.4g}"
            row[f"{name}_ratio"] = f"{ratio:.2f}"
        rows.append(row)
        print("  ".join(f"{key} {value}" if key != "case" else value for key, value in row.items()), flush=True)
    for (cell, name), values in ratios.items():
        mean = math.exp(statistics.fmean(map(math.log, values)))
        print(f"{cell} {name}: geometric mean {mean:.2f}, least {min(values):.2f}")
    if options.csv:
        with options.csv.open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
