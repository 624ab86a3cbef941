"""The cases of shapes.json and shapes_gpu.json for the benchmark programs in Python, and the protocol of --serve.

The same in C++: harness/cases.h, harness/report.h.
"""

import json
import sys

GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1}


def read_cases(path):
    """Every shape with every one of the file's cells, or with its own."""
    document = json.loads(path.read_text())
    cases = []
    for cell in document.get("cells", [None]):
        for shape in document["shapes"]:
            case = {"cell": shape.get("cell", cell), **{n: shape[n] for n in "TBIHL"}}
            case["bidirectional"] = shape.get("bidirectional", False)
            case["lengths"] = shape.get("lengths", "full")
            name = "{cell}_T{T}_B{B}_I{I}_H{H}_L{L}".format(**case)
            name += "_bi" * case["bidirectional"] + "_uniform" * (case["lengths"] == "uniform")
            cases.append({"case": name, **case})
    return cases


def read_models(path):
    """The training steps of whole models that shapes_gpu.json lists; I is the width of the embedding."""
    models = []
    for shape in json.loads(path.read_text()).get("models", []):
        model = {"bidirectional": False, "lengths": "full", **shape}
        name = "{model}_T{T}_B{B}_I{I}_H{H}_L{L}".format(**model)
        models.append({"case": name, "cell": model["model"], **model})
    return models


def lengths_of(case):
    """Row lengths, [B]: all T, or unsorted and uniform over 1..T (multiples of the golden ratio modulo 1)."""
    if case["lengths"] == "full":
        return [case["T"]] * case["B"]
    return [case["T"] - (((b * 2654435769) % 2**32 * case["T"]) >> 32) for b in range(case["B"])]


def forward_gflop(case):
    """10^9 operations of the matrix products of a forward pass over the valid steps."""
    gates, directions = GATES[case["cell"]], 1 + case["bidirectional"]
    inputs = [case["I"]] + [case["H"] * directions] * (case["L"] - 1)
    per_step = sum(directions * 2 * gates * case["H"] * (i + case["H"]) for i in inputs)
    return sum(lengths_of(case)) * per_step * 1e-9


def serve(head, cases, measure):
    """Writes `head` as a line, then for every line "case precision" of standard input `head` with the list `results`
    that measure(case, precision) gives."""
    known = {case["case"]: case for case in cases}
    print(json.dumps({**head, "results": []}), flush=True)
    for line in sys.stdin:
        name, precision = line.split()
        print(json.dumps({**head, "results": measure(known[name], precision)}), flush=True)
