#!/usr/bin/env python3
"""turbolstm.torch's LSTM against torch.nn's on an NVIDIA GPU, as Python calls them.

    python benchmarks/compare_torch_gpu.py [--only PATTERN] [--rounds 3] [--min-time 0.2] [--csv FILE]

A training step is forward, then backward to every weight and the input, for the gradient of y. "eager" times calls from
Python until the GPU is done with them; "captured" the replay of a CUDA graph of the step. Acting is one call without
gradients that takes and gives states; it is timed back to back, as rollouts call it, without waiting in between. In each
round both take turns; the median of each over the rounds is reported.
"""

import argparse
import csv
import pathlib
import re
import statistics
import time
import warnings

import torch
import turbolstm
import turbolstm.torch as turbo

WARM_UPS, FEWEST_RUNS = 3, 5
TYPES = {"fp32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="run cases whose name holds this regular expression")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--min-time", type=float, default=0.2, help="least seconds per measurement")
    parser.add_argument("--csv", type=pathlib.Path)
    return parser.parse_args()


def layer(which, inputs, hidden, precision):
    torch.backends.cudnn.allow_tf32 = precision != "fp32"
    module = {"PyTorch": torch.nn.LSTM, "TurboLSTM": turbo.LSTM}[which](inputs, hidden)
    module = module.to("cuda", TYPES[precision])
    module.flatten_parameters()  # or cuDNN would copy weights at every call
    return module


def training(which, precision, steps, batch, hidden, packed=None, resets=0.0):
    """A training step. packed: "equal" or "uniform" lengths."""
    torch.manual_seed(0)
    net = layer(which, hidden, hidden, precision)
    to = {"device": "cuda", "dtype": TYPES[precision]}
    options = {}
    if resets and which == "TurboLSTM":
        options["reset"] = torch.rand(steps, batch, device="cuda") < resets
    x = torch.randn(steps, batch, hidden, **to)
    if packed:
        lengths = torch.full((batch,), steps) if packed == "equal" else torch.linspace(steps, 1, batch).long()
        x = torch.nn.utils.rnn.pack_padded_sequence(x, lengths)
        sizes, x = x.batch_sizes, x.data
    gradient = torch.randn(*x.shape[:-1], hidden, **to)
    x.requires_grad_()

    def step():
        net.zero_grad(set_to_none=False)
        x.grad = None
        y = net(torch.nn.utils.rnn.PackedSequence(x, sizes) if packed else x, **options)[0]
        (y.data if packed else y).backward(gradient)

    return step


def acting(which, precision, steps, batch, hidden):
    torch.manual_seed(0)
    net = layer(which, hidden, hidden, precision)
    x = torch.randn(steps, batch, hidden, device="cuda", dtype=TYPES[precision])
    states = [None]

    def step():
        with torch.no_grad():
            states[0] = net(x, states[0])[1]

    return step


def captured(step):
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(WARM_UPS):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def waiting_ms(step, least):
    """Median of calls, each until the GPU is done."""
    times = []
    while len(times) < FEWEST_RUNS or sum(times) < least:
        start = time.perf_counter()
        step()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3


def streaming_ms(step, least, calls=50):
    """Median over groups of calls back to back, by call."""
    times = []
    while len(times) < FEWEST_RUNS or sum(times) * calls < least:
        start = time.perf_counter()
        for _ in range(calls):
            step()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) / calls)
    return statistics.median(times) * 1e3


def cases():
    """Name, maker of a step, its arguments, what is timed."""
    for hidden in (256, 512, 1024):
        for precision in ("bf16", "tf32"):
            yield f"train T256 B64 H{hidden} {precision}", training, (precision, 256, 64, hidden), "both"
    for lengths in ("equal", "uniform"):
        for hidden in (256, 512):
            arguments_of = ("bf16", 400, 64, hidden, lengths)
            yield f"train packed {lengths} T400 B64 H{hidden} bf16", training, arguments_of, "eager"
    for precision in ("bf16", "tf32"):
        for share in (0.0, 0.03):
            arguments_of = (precision, 128, 128, 256, None, share)
            yield f"train resets {share:.0%} T128 B128 H256 {precision}", training, arguments_of, "both"
    for precision in ("fp32", "bf16"):
        for hidden in (128, 512):
            for batch in (1, 8, 64):
                for steps in (1, 2, 4, 8):
                    yield (
                        f"act T{steps} B{batch} H{hidden} {precision}",
                        acting,
                        (precision, steps, batch, hidden),
                        "stream",
                    )


def measure(make, arguments_of, kind, options):
    """ms by implementation and way."""
    ways = {}
    for which in ("PyTorch", "TurboLSTM"):
        step = make(which, *arguments_of)
        for _ in range(WARM_UPS):
            step()
        if kind == "stream":
            ways[which, "back to back"] = (streaming_ms, step)
            continue
        ways[which, "eager"] = (waiting_ms, step)
        if kind == "both":
            ways[which, "captured"] = (waiting_ms, captured(step))
    times = {key: [] for key in ways}
    for _ in range(options.rounds):
        for key, (clock, step) in ways.items():
            times[key].append(clock(step, options.min_time / options.rounds))
    return {key: statistics.median(values) for key, values in times.items()}


def main():
    options = arguments()
    warnings.filterwarnings("ignore", message="RNN module weights")
    print(f"PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}, TurboLSTM {turbolstm.__version__}, "
          f"{torch.cuda.get_device_name()}")  # fmt: skip
    rows = []
    for name, make, arguments_of, kind in cases():
        if not re.search(options.only, name):
            continue
        times = measure(make, arguments_of, kind, options)
        for way in dict.fromkeys(way for _, way in times):
            theirs, ours = times["PyTorch", way], times["TurboLSTM", way]
            rows.append({"case": name, "way": way, "pytorch_ms": f"{theirs:.4g}", "turbolstm_ms": f"{ours:.4g}",
                         "ratio": f"{theirs / ours:.2f}"})  # fmt: skip
            print("  ".join(rows[-1].values()), flush=True)
    if options.csv:
        with options.csv.open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
