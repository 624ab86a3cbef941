#!/usr/bin/env python3
"""Recomputes golden_values.json with scalar double-precision loops and prints how far each published number is away.

  python check_golden_values.py           # exit 1 if a number does not reproduce
  python check_golden_values.py --write   # also rewrites each case's "expected" from the loops below

A case: cell "lstm" or "gru"; sizes T, B, I, H; directions, one of "forward"/"reverse" each (D of them); tensors as
{"shape", "values"} in row-major order, a single value filling the shape:
  x [T, B, I]; weight_ih [D, G*H, I]; weight_hh [D, G*H, H]; bias_ih, bias_hh [D, G*H] (absent: 0); h_0, c_0 [D, B, H]
  (absent: 0); peephole [D, 3, H] in the order i f o (absent: 0). Gate rows: LSTM i f g o, GRU r z n (the variant whose
  reset gate multiplies the recurrent product with its bias: ONNX linear_before_reset = 1).
Options: lengths [B]; clip (bounds the input of every activation); input_forget (f = 1 - i, f's rows unused).
"published": numbers known from ONNX, ONNX Runtime, Keras or by hand, {"of": "y|h_n|c_n", "at": index, "values"}: the
values follow each other in row-major order from that index on. "expected": all of y [T, B, D*H] (absent for long
sequences), h_n and c_n [D, B, H]. "tolerance": absolute, float32 (a case's own wins over the file's).

Keras' go_backwards equals "reverse" here except that Keras also flips the returned sequence in time.
"""

import argparse
import itertools
import json
import math
import pathlib
import sys

PUBLISHED_DIGITS = 6e-8  # the published numbers are float32 results with eight digits
LONGEST_STORED_OUTPUT = 10


def sigmoid(v):
    return 1 / (1 + math.exp(-v))


class Case:
    """One case's numbers with indexing, e.g. value("weight_ih", d, row, column)."""

    def __init__(self, data):
        self.data = data
        self.T, self.B, self.I, self.H = (data[n] for n in "TBIH")
        self.lengths = data.get("lengths", [self.T] * self.B)

    def value(self, name, *index):
        if name not in self.data:
            return 0.0
        shape, values = self.data[name]["shape"], self.data[name]["values"]
        assert len(values) in (1, math.prod(shape)), (self.data["name"], name)
        return values[0] if len(values) == 1 else values[flat(shape, index)]

    def activation_input(self, v):
        clip = self.data.get("clip", math.inf)
        return max(-clip, min(clip, v))

    def input_part(self, d, row, t, b):
        return sum(self.value("weight_ih", d, row, k) * self.value("x", t, b, k) for k in range(self.I)) + self.value(
            "bias_ih", d, row
        )

    def hidden_part(self, d, row, h):
        return sum(self.value("weight_hh", d, row, k) * h[k] for k in range(self.H)) + self.value("bias_hh", d, row)

    def lstm_unit(self, d, t, b, j, h, c):
        i, f, g, o = (self.input_part(d, q * self.H + j, t, b) + self.hidden_part(d, q * self.H + j, h) for q in range(4))
        peep = [self.value("peephole", d, q, j) for q in range(3)]
        bound = self.activation_input
        input_gate = sigmoid(bound(i + peep[0] * c[j]))
        forget_gate = sigmoid(bound(f + peep[1] * c[j]))
        if self.data.get("input_forget"):
            forget_gate = 1 - input_gate
        cell = forget_gate * c[j] + input_gate * math.tanh(bound(g))
        return sigmoid(bound(o + peep[2] * cell)) * math.tanh(bound(cell)), cell

    def gru_unit(self, d, t, b, j, h, _):
        given = [self.input_part(d, q * self.H + j, t, b) for q in range(3)]
        carried = [self.hidden_part(d, q * self.H + j, h) for q in range(3)]
        reset, update = (sigmoid(self.activation_input(given[q] + carried[q])) for q in range(2))
        candidate = math.tanh(self.activation_input(given[2] + reset * carried[2]))
        return (1 - update) * candidate + update * h[j], 0.0

    def run(self):
        unit = self.lstm_unit if self.data["cell"] == "lstm" else self.gru_unit
        D = len(self.data["directions"])
        y = [0.0] * (self.T * self.B * D * self.H)
        h_n, c_n = [], []
        for d, b in itertools.product(range(D), range(self.B)):
            h = [self.value("h_0", d, b, j) for j in range(self.H)]
            c = [self.value("c_0", d, b, j) for j in range(self.H)]
            steps = range(self.lengths[b])
            for t in reversed(steps) if self.data["directions"][d] == "reverse" else steps:
                h, c = map(list, zip(*(unit(d, t, b, j, h, c) for j in range(self.H))))
                start = ((t * self.B + b) * D + d) * self.H
                y[start : start + self.H] = h
            h_n += h
            c_n += c
        results = {"y": tensor([self.T, self.B, D * self.H], y), "h_n": tensor([D, self.B, self.H], h_n)}
        if self.data["cell"] == "lstm":
            results["c_n"] = tensor([D, self.B, self.H], c_n)
        return results


def tensor(shape, values):
    return {"shape": shape, "values": values}


def flat(shape, index):
    offset = 0
    for size, i in zip(shape, index):
        offset = offset * size + i
    return offset


def deviation(result, wanted, start=0):
    return max(abs(a - b) for a, b in zip(result["values"][start:], wanted, strict=False))


def check(data, write):
    results = Case(data).run()
    good = True
    for item in data["published"]:
        result = results[item["of"]]
        off = deviation(result, item["values"], flat(result["shape"], item["at"]))
        good &= off <= PUBLISHED_DIGITS
        print(f"{data['name']:26} {item['of']:4}{str(item['at']):12} off by {off:.1e}")
    if write:
        data["expected"] = {
            n: tensor(r["shape"], [round(v, 12) for v in r["values"]])
            for n, r in results.items()
            if n != "y" or data["T"] <= LONGEST_STORED_OUTPUT
        }
    for name, stored in data["expected"].items():
        assert stored["shape"] == results[name]["shape"]
        good &= deviation(results[name], stored["values"]) <= 1e-11
    return good


def pretty(document):
    """JSON with one case field a line."""
    def case(data):
        return "  {\n" + ",\n".join(f"   {json.dumps(k)}: {json.dumps(v)}" for k, v in data.items()) + "\n  }"

    head = {k: v for k, v in document.items() if k != "cases"}
    lines = [f" {json.dumps(k)}: {json.dumps(v)}" for k, v in head.items()]
    return "{\n" + ",\n".join(lines) + ',\n "cases": [\n' + ",\n".join(map(case, document["cases"])) + "\n ]\n}\n"


def main():
    parser = argparse.ArgumentParser(description="Recomputes the golden values.")
    parser.add_argument("--write", action="store_true", help="rewrite the expected values")
    write = parser.parse_args().write
    path = pathlib.Path(__file__).with_name("golden_values.json")
    document = json.loads(path.read_text())
    good = all([check(data, write) for data in document["cases"]])
    if write:
        path.write_text(pretty(document))
    print("all numbers reproduce" if good else "NOT all numbers reproduce")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
