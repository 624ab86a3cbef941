#!/usr/bin/env python3
"""torch.nn.LSTM and torch.nn.GRU on the CPU at the shapes of shapes.json: forward (no_grad) and a training step
(forward, then backward to every weight and the input). Arguments and JSON: benchmarks/README.md.

Ragged batches are measured in two variants: "packed" with pack_padded_sequence and pad_packed_sequence inside the timed
part, as a user whose data come padded pays for it, and "prepacked" without.
"""

import argparse
import ctypes
import gc
import json
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from harness_cases import forward_gflop, lengths_of, read_cases  # noqa: E402
from pytorch_passes import pass_of_layer  # noqa: E402

WARM_UPS, FEWEST_RUNS, MOST_RUNS = 2, 5, 2000
PEAK_SIZES = (2048, 3072, 4096)


def arguments():
    parser = argparse.ArgumentParser(description="PyTorch's LSTM and GRU on the CPU.")
    parser.add_argument("--shapes", type=pathlib.Path, required=True, help="list of shapes (shapes.json)")
    parser.add_argument("--case", action="append", help="run only the case of this name (may be repeated)")
    parser.add_argument("--precision", action="append", choices=("fp32", "bf16"), help="default both")
    parser.add_argument("--pass", dest="passes", action="append", choices=("forward", "train"), help="default both")
    parser.add_argument("--json", type=pathlib.Path, help="write results here (default: standard output)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--min-time", type=float, default=1.0, help="least seconds per measurement")
    parser.add_argument("--peak", action="store_true", help="only measure large matrix products")
    return parser.parse_args()


def measure(function, min_seconds):
    for _ in range(WARM_UPS):
        function()
    times, total = [], 0.0
    while len(times) < MOST_RUNS and (len(times) < FEWEST_RUNS or total < min_seconds):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
        total += times[-1]
    q1, median, q3 = np.percentile(np.array(times) * 1e3, [25, 50, 75])
    return {"runs": len(times), "median_ms": median, "min_ms": min(times) * 1e3, "q1_ms": q1, "q3_ms": q3}


def status_mebibytes(key):
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) / 1024
    return 0.0


class PeakMemory:
    """Peak of resident memory since construction over what was resident then; 0 where it cannot be reset.

    Memory that earlier cases freed is given back first, so that it does not hide what this one takes.
    """

    def __init__(self):
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        try:
            pathlib.Path("/proc/self/clear_refs").write_text("5")
            self.start = status_mebibytes("VmRSS")
        except OSError:
            self.start = None

    def mebibytes(self):
        return 0.0 if self.start is None else status_mebibytes("VmHWM") - self.start


def network(case, precision):
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[precision]
    module = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}[case["cell"]]
    net = module(case["I"], case["H"], case["L"], bidirectional=case["bidirectional"]).to(dtype)
    x = torch.randn(case["T"], case["B"], case["I"], dtype=dtype, requires_grad=True)
    y_gradient = torch.randn(case["T"], case["B"], case["H"] * (1 + case["bidirectional"]), dtype=dtype)
    return net, x, y_gradient


def step_function(case, precision, name, variant):
    """The function to time for pass `name` ("forward" or "train")."""
    net, x, y_gradient = network(case, precision)
    lengths = torch.tensor(lengths_of(case))
    pack = lambda values: pack_padded_sequence(values, lengths, enforce_sorted=False)
    if variant == "packed":
        call = lambda: pad_packed_sequence(net(pack(x))[0], total_length=case["T"])[0]
    elif variant == "prepacked":
        with torch.no_grad():
            packed = pack(x)
            y_gradient = pack(y_gradient).data
        x = packed.data.requires_grad_()
        packed = packed._replace(data=x)
        call = lambda: net(packed)[0].data
    else:
        call = lambda: net(x)[0]

    return pass_of_layer(name, net, x, y_gradient, call)


def measure_case(case, precision, name, variant, min_seconds):
    entry = {**case, "precision": precision, "pass": name, "variant": variant}
    try:
        memory = PeakMemory()
        step = step_function(case, precision, name, variant)
        for _ in range(3):
            step()
        peak = memory.mebibytes()
        entry.update(measure(step, min_seconds))
    except (RuntimeError, NotImplementedError) as error:
        return {**entry, "error": str(error).splitlines()[0]}
    entry["gflop"] = forward_gflop(case) * (3 if name == "train" else 1)
    if name == "train" and peak > 0:
        entry["peak_memory_mib"] = peak
    return entry


def warm_up():
    """Loads code and starts threads before anything counts."""
    for cell in ("lstm", "gru"):
        tiny = {"cell": cell, "T": 2, "B": 2, "I": 8, "H": 8, "L": 1, "bidirectional": False, "lengths": "full"}
        step_function(tiny, "fp32", "train", "")()


def peaks(precisions, min_seconds):
    """Best rates of large square matrix products: PyTorch's (MKL or oneDNN) and NumPy's (OpenBLAS)."""
    found = []
    for precision in precisions:
        for n in PEAK_SIZES:
            a, b = (torch.randn(n, n, dtype=torch.float32 if precision == "fp32" else torch.bfloat16) for _ in "ab")
            products = {"PyTorch mm": lambda: torch.mm(a, b)}
            if precision == "fp32":
                products["NumPy matmul"] = lambda: np.matmul(a.numpy(), b.numpy())
            for what, product in products.items():
                rate = 2 * n**3 / measure(product, min_seconds)["min_ms"] * 1e-6
                found.append({"precision": precision, "what": f"{what} {n}", "gflops": rate})
    return found


def main():
    options = arguments()
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = str(options.threads)
    global np, torch, pack_padded_sequence, pad_packed_sequence  # imported late: the thread count must be set before
    import numpy as np
    import torch
    from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

    torch.set_num_threads(options.threads)
    cases = read_cases(options.shapes)
    unknown = set(options.case or ()) - {case["case"] for case in cases}
    if unknown:
        sys.exit(f"[--case] not in the list of shapes: {', '.join(sorted(unknown))}")
    report = {"implementation": "PyTorch", "version": torch.__version__, "threads": options.threads}
    precisions, passes = options.precision or ("fp32", "bf16"), options.passes or ("forward", "train")
    report["peaks"] = peaks(precisions, options.min_time) if options.peak else []
    report["results"] = []
    if not options.peak:
        warm_up()
        for case in cases:
            if options.case and case["case"] not in options.case:
                continue
            variants = ("packed", "prepacked") if case["lengths"] == "uniform" else ("",)
            report["results"] += [
                measure_case(case, precision, name, variant, options.min_time)
                for precision in precisions
                for name in passes
                for variant in variants
            ]
    text = json.dumps(report, indent=1) + "\n"
    options.json.write_text(text) if options.json else sys.stdout.write(text)


if __name__ == "__main__":
    main()
