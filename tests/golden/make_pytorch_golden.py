#!/usr/bin/env python3
"""Writes pytorch_rnn.safetensors: what torch.nn.{LSTM,GRU,RNN} answer in float64, forward and backward.

  pip install -r requirements.txt
  python make_pytorch_golden.py                 # rewrites the file beside this script
  python make_pytorch_golden.py --check         # recomputes and compares with the file, exit 1 if different

Every given number (inputs, weights, states, upstream gradients) is a float32 value stored as float64, so that a
float32 implementation starts from the very same numbers; every expected number is float64 all the way.

Tensors of case C (T time, B batch, I input, H hidden, P projection, S = P or H: size of h, L layers, D directions):
  C/x [T, B, I]              input; steps past a row's length hold ordinary numbers that must not matter
  C/lengths [B] int64        only in cases with lengths
  C/h_0 [L*D, B, S]          only in cases with initial = random (otherwise PyTorch gets zeros)
  C/c_0 [L*D, B, H]          the same, LSTM only
  C/param/<name>             PyTorch's names: weight_ih_l0, weight_hh_l0_reverse, bias_ih_l1, weight_hr_l0, ...
  C/upstream/{y,h_n,c_n}     gradients of the loss for the outputs; not zero at padded steps, where they must not matter
  C/y [T, B, D*S]            expected output, 0 at padded steps
  C/h_n, C/c_n               expected final states, shapes as h_0 and c_0
  C/grad/{x,h_0,c_0,<name>}  expected gradients; those of the states are there in every case
The header's __metadata__ has one key, "index": JSON text {"torch": version, "cases": [{"name": C, "cell":
"lstm|gru|rnn_tanh|rnn_relu", "layers", "bidirectional", "bias", "initial": "zero|random", "lengths": "full|ragged|
short", "T", "B", "I", "H", "P" (0: none)}, ...]}.

Pairing. The full product of the factors would be 4 * 72 cases (and 72 more for projections). Instead every cell gets a
greedy covering array of strength 3: each triple of values of three different factors occurs in at least one of the
cell's cases (hence each pair does, too), and check_coverage() fails otherwise.
"""

import argparse
import itertools
import json
import pathlib
import sys

import numpy as np
import torch
from safetensors import safe_open
from safetensors.numpy import save_file
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

STRENGTH = 3
T, B, I, H, P = 7, 3, 5, 6, 4
# Unsorted, with a row of one step; "short" ends before T, so that whole steps are padding.
LENGTHS = {"full": None, "ragged": [4, 1, 7], "short": [2, 5, 1]}
FACTORS = {
    "layers": [1, 2, 3],
    "bidirectional": [False, True],
    "bias": [True, False],
    "initial": ["zero", "random"],
    "lengths": list(LENGTHS),
}
CELLS = {
    "lstm": {**FACTORS, "P": [0, P]},
    "gru": FACTORS,
    "rnn_tanh": FACTORS,
    "rnn_relu": FACTORS,
}
MODULES = {
    "lstm": torch.nn.LSTM,
    "gru": torch.nn.GRU,
    "rnn_tanh": lambda *a, **k: torch.nn.RNN(*a, nonlinearity="tanh", **k),
    "rnn_relu": lambda *a, **k: torch.nn.RNN(*a, nonlinearity="relu", **k),
}


def tuples(options):
    """All (factor, value) subsets of size STRENGTH that one case shows."""
    return set(itertools.combinations(sorted(options.items(), key=lambda item: item[0]), STRENGTH))


def covering_array(factors):
    """Greedy: takes the case that shows most of the missing tuples, the first of equals, until none is missing."""
    every = [dict(zip(factors, values)) for values in itertools.product(*factors.values())]
    missing = set().union(*(tuples(options) for options in every))
    chosen = []
    while missing:
        best = max(every, key=lambda options: len(tuples(options) & missing))
        chosen.append(best)
        missing -= tuples(best)
    return chosen


def check_coverage(cases):
    for cell, factors in CELLS.items():
        shown = set().union(*(tuples({k: c[k] for k in factors}) for c in cases if c["cell"] == cell))
        for names in itertools.combinations(sorted(factors), STRENGTH):
            for values in itertools.product(*(factors[n] for n in names)):
                assert tuple(zip(names, values)) in shown, (cell, names, values)


def case_list():
    cases = []
    for cell, factors in CELLS.items():
        for options in covering_array(factors):
            case = {"cell": cell, **options, "T": T, "B": B, "I": I, "H": H, "P": options.get("P", 0)}
            case["name"] = "{}_l{}_{}_{}_{}_{}{}".format(
                cell,
                case["layers"],
                "bi" if case["bidirectional"] else "uni",
                "bias" if case["bias"] else "nobias",
                case["initial"],
                case["lengths"],
                "_proj" if case["P"] else "",
            )
            cases.append(case)
    check_coverage(cases)
    return cases


def given_numbers(case, rng):
    """The numbers a case starts from, float32 values held as float64."""
    draw = lambda *shape, scale=1.0: (scale * rng.standard_normal(shape)).astype(np.float32).astype(np.float64)
    directions = 2 if case["bidirectional"] else 1
    size = case["P"] or case["H"]
    states = case["layers"] * directions
    lstm = case["cell"] == "lstm"
    given = {"x": draw(T, B, I)}
    if LENGTHS[case["lengths"]]:
        given["lengths"] = np.array(LENGTHS[case["lengths"]], dtype=np.int64)
    if case["initial"] == "random":
        given["h_0"] = draw(states, B, size)
        if lstm:
            given["c_0"] = draw(states, B, H)
    for name, parameter in module(case).named_parameters():
        given["param/" + name] = draw(*parameter.shape, scale=0.4)
    given["upstream/y"] = draw(T, B, directions * size, scale=0.25)
    given["upstream/h_n"] = draw(states, B, size, scale=0.25)
    if lstm:
        given["upstream/c_n"] = draw(states, B, H, scale=0.25)
    return given


def module(case):
    options = {"bias": case["bias"], "bidirectional": case["bidirectional"]}
    if case["P"]:
        options["proj_size"] = case["P"]
    return MODULES[case["cell"]](I, H, case["layers"], **options).double()


def answer(case, given):
    """PyTorch's outputs and gradients for the given numbers."""
    net = module(case)
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            parameter.copy_(torch.from_numpy(given["param/" + name]))
    x = torch.from_numpy(given["x"]).requires_grad_()
    directions = 2 if case["bidirectional"] else 1
    states = case["layers"] * directions
    initial = {"h_0": np.zeros((states, B, case["P"] or H))}
    if case["cell"] == "lstm":
        initial["c_0"] = np.zeros((states, B, H))
    initial = {n: torch.from_numpy(given.get(n, zero)).requires_grad_() for n, zero in initial.items()}
    hx = tuple(initial.values()) if len(initial) == 2 else initial["h_0"]
    if "lengths" in given:
        packed = pack_padded_sequence(x, torch.from_numpy(given["lengths"]), enforce_sorted=False)
        packed, final = net(packed, hx)
        y, _ = pad_packed_sequence(packed, total_length=T)
    else:
        y, final = net(x, hx)
    final = final if isinstance(final, tuple) else (final,)
    outputs = dict(zip(("y", "h_n", "c_n"), (y, *final)))
    torch.autograd.backward(
        list(outputs.values()), [torch.from_numpy(given["upstream/" + n]) for n in outputs]
    )
    gradients = {"x": x, **initial, **dict(net.named_parameters())}
    expected = {n: v.detach().numpy().copy() for n, v in outputs.items()}
    expected.update({"grad/" + n: v.grad.numpy().copy() for n, v in gradients.items()})
    return expected


def is_smooth_here(case, given, expected):
    """False if rounding to float32 could push a relu across its kink, where no implementation could agree."""
    moved = {n: v * (1 + 1e-5) if v.dtype == np.float64 else v for n, v in given.items()}
    other = answer(case, moved)
    return all(np.allclose(other[n], v, rtol=2e-3, atol=2e-3) for n, v in expected.items())


def compute():
    tensors, cases = {}, case_list()
    for number, case in enumerate(cases):
        for attempt in itertools.count():
            given = given_numbers(case, np.random.default_rng([2026, number, attempt]))
            expected = answer(case, given)
            if is_smooth_here(case, given, expected):
                break
        for name, value in {**given, **expected}.items():
            assert np.isfinite(value).all()
            tensors[f"{case['name']}/{name}"] = value
    return tensors, {"torch": torch.__version__, "cases": cases}


def check(path, tensors, index):
    with safe_open(path, "numpy") as file:
        stored = {name: file.get_tensor(name) for name in file.keys()}
        stored_index = json.loads(file.metadata()["index"])
    if stored_index["cases"] != index["cases"] or stored.keys() != tensors.keys():
        return False
    worst = max(float(np.abs(stored[n] - v).max()) for n, v in tensors.items())
    print(f"{len(index['cases'])} cases, {len(tensors)} tensors, largest difference {worst:.2e}")
    return worst < 1e-12


def main():
    parser = argparse.ArgumentParser(description="Golden outputs and gradients of PyTorch's recurrent layers.")
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path(__file__).with_name("pytorch_rnn.safetensors"))
    parser.add_argument("--check", action="store_true", help="compare with the file instead of writing it")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    tensors, index = compute()
    if arguments.check:
        sys.exit(0 if check(arguments.output, tensors, index) else 1)
    save_file(tensors, arguments.output, metadata={"index": json.dumps(index)})
    print(f"{len(index['cases'])} cases, {arguments.output.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
