#!/usr/bin/env python3
"""torch.nn.LSTM, GRU and RNN on a GPU at the shapes of shapes_gpu.json: forward (no_grad) and a training step (forward,
then backward to every weight and the input); and the training step of the sentiment model (embedding, LSTM, mean over
time, linear, cross-entropy, Adam). Arguments and JSON: benchmarks/README.md.

Variants: "graph" (the step captured once in a CUDA graph and replayed) and "eager". Ragged batches: "packed/eager" with
pack_padded_sequence and pad_packed_sequence inside the timed part (neither can be captured), "padded/graph" and
"padded/eager" over all T steps.
"""

import argparse
import functools
import json
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from harness_cases import forward_gflop, lengths_of, read_cases, read_models, serve  # noqa: E402
from pytorch_passes import pass_of_layer  # noqa: E402

PRECISIONS = ("fp32", "tf32", "bf16", "fp16")
WARM_UPS, RUNS = 1, 21
# An eager step this many times slower than the captured one is measured with fewer runs.
HOPELESS, RUNS_OF_HOPELESS = 2, 5


def arguments():
    parser = argparse.ArgumentParser(description="PyTorch's recurrent layers on a GPU.")
    parser.add_argument("--shapes", type=pathlib.Path, required=True, help="list of shapes (shapes_gpu.json)")
    parser.add_argument("--case", action="append", help="run only the case of this name (may be repeated)")
    parser.add_argument("--precision", action="append", choices=PRECISIONS, help="default all")
    parser.add_argument("--pass", dest="passes", action="append", choices=("forward", "train"), help="default both")
    parser.add_argument("--device", choices=("cuda",), default="cuda")
    parser.add_argument("--json", type=pathlib.Path, help="write results here (default: standard output)")
    parser.add_argument("--serve", action="store_true", help='answer lines "case precision" of standard input')
    return parser.parse_args()


def dtype_of(precision):
    return {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision, torch.float32)


def set_tf32(precision):
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"


def measure(function, runs):
    """Times on the GPU of `runs` calls that follow each other without a wait, in ms."""
    events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(runs)]
    for _ in range(WARM_UPS):
        function()
    for start, end in events:
        start.record()
        function()
        end.record()
    torch.cuda.synchronize()
    times = [start.elapsed_time(end) for start, end in events]
    q1, median, q3 = statistics.quantiles(times, n=4, method="inclusive")
    return {"runs": runs, "median_ms": median, "min_ms": min(times), "q1_ms": q1, "q3_ms": q3}


def captured(step):
    """A function that replays `step`."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def layer_step(case, precision, name, packed):
    """The function to time for pass `name` ("forward" or "train") of a recurrent layer."""
    module = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU, "rnn_tanh": torch.nn.RNN}[case["cell"]]
    options = {"dtype": dtype_of(precision), "device": "cuda"}
    net = module(case["I"], case["H"], case["L"], bidirectional=case["bidirectional"]).to(**options)
    net.flatten_parameters()
    x = torch.randn(case["T"], case["B"], case["I"], requires_grad=True, **options)
    y_gradient = torch.randn(case["T"], case["B"], case["H"] * (1 + case["bidirectional"]), **options)
    lengths = torch.tensor(lengths_of(case))

    def call():
        if not packed:
            return net(x)[0]
        values = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
        return torch.nn.utils.rnn.pad_packed_sequence(net(values)[0], total_length=case["T"])[0]

    return pass_of_layer(name, net, x, y_gradient, call)


def model_step(case, precision):
    """The function to time for the training step of the sentiment model."""
    rows, steps, width = case["B"], case["T"], case["H"]
    parts = {
        "embedding": torch.nn.Embedding(case["vocabulary"], case["I"]),
        "lstm": torch.nn.LSTM(case["I"], width, case["L"]),
        "output": torch.nn.Linear(width, case["classes"]),
    }
    net = torch.nn.ModuleDict(parts).to(device="cuda", dtype=dtype_of(precision))
    net["lstm"].flatten_parameters()
    optimizer = torch.optim.Adam(net.parameters(), fused=True, capturable=True)
    words = torch.randint(0, case["vocabulary"], (steps, rows), device="cuda")
    labels = torch.randint(0, case["classes"], (rows,), device="cuda")

    def step():
        optimizer.zero_grad()
        logits = net["output"](net["lstm"](net["embedding"](words))[0].mean(0))
        torch.nn.functional.cross_entropy(logits.float(), labels).backward()
        optimizer.step()

    return step


def measure_variants(entry, variants):
    """One result a variant of `variants`: (name, function that gives the step to time), the captured one first."""
    results, graph_ms = [], None
    for variant, make_step in variants:
        result = {**entry, "variant": variant}
        try:
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            step = make_step()
            function = captured(step) if variant.endswith("graph") else step
            once = measure(function, 2)["median_ms"]
            runs = RUNS_OF_HOPELESS if graph_ms and once > HOPELESS * graph_ms else RUNS
            result.update(measure(function, runs))
            graph_ms = graph_ms or result["median_ms"]
            if entry["pass"] != "forward":
                result["peak_memory_mib"] = (torch.cuda.max_memory_allocated() - before) / 2**20
        except RuntimeError as error:
            result["error"] = str(error).splitlines()[0]
        step = function = None
        results.append(result)
    return results


def measure_case(case, precision, passes):
    set_tf32(precision)
    head = {key: value for key, value in case.items() if key not in ("model", "vocabulary", "classes")}
    if "model" in case:
        entry = {**head, "precision": precision, "pass": "step"}
        return measure_variants(entry, [(mode, lambda: model_step(case, precision)) for mode in ("graph", "eager")])
    results = []
    for name in passes:
        gflop = forward_gflop(case) * (3 if name == "train" else 1)
        entry = {**head, "precision": precision, "pass": name, "gflop": gflop}
        padded = functools.partial(layer_step, case, precision, name, packed=False)
        packed = functools.partial(layer_step, case, precision, name, packed=True)
        variants = [("graph", padded), ("eager", padded)]
        if case["lengths"] == "uniform":
            variants = [("padded/graph", padded), ("padded/eager", padded), ("packed/eager", packed)]
        results += measure_variants(entry, variants)
    return results


def main():
    options = arguments()
    global torch  # imported late: --help must not wait for it
    try:
        import torch
    except ImportError as error:
        sys.exit(str(error))
    if not torch.cuda.is_available():
        sys.exit(f"PyTorch {torch.__version__} finds no CUDA device")
    head = {"implementation": "PyTorch", "version": torch.__version__, "cudnn": str(torch.backends.cudnn.version())}
    head["models"] = True
    head["device"] = torch.cuda.get_device_name(0)
    cases = read_cases(options.shapes) + read_models(options.shapes)
    passes = options.passes or ("forward", "train")
    unknown = set(options.case or ()) - {case["case"] for case in cases}
    if unknown:
        sys.exit(f"[--case] not in the list of shapes: {', '.join(sorted(unknown))}")
    if options.serve:
        return serve(head, cases, lambda case, precision: measure_case(case, precision, passes))
    wanted = [case for case in cases if not options.case or case["case"] in options.case]
    precisions = options.precision or PRECISIONS
    results = [entry for case in wanted for precision in precisions for entry in measure_case(case, precision, passes)]
    report = json.dumps({**head, "results": results}, indent=1) + "\n"
    options.json.write_text(report) if options.json else sys.stdout.write(report)


if __name__ == "__main__":
    main()
