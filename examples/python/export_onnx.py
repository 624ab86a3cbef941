#!/usr/bin/env python3
"""Exports a layer to ONNX, runs it in ONNX Runtime for other sizes and lengths, and compares.

    python examples/python/export_onnx.py model.onnx
"""

import sys

import numpy
import onnxruntime
import torch

import turbolstm.onnx
import turbolstm.torch


def main():
    path = sys.argv[1]
    torch.manual_seed(1)
    layer = turbolstm.torch.LSTM(16, 32, num_layers=2, bidirectional=True)
    turbolstm.onnx.export(layer, path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for steps, lengths in ((1, [1]), (20, [20, 3, 11]), (50, [7, 50, 50, 2, 31])):
        batch = len(lengths)
        x, states = torch.randn(steps, batch, 16), [torch.randn(4, batch, 32) for _ in range(2)]
        with torch.no_grad():
            y, (h_n, c_n) = layer(x, tuple(states), lengths=lengths)
        feeds = {"x": x, "sequence_lens": torch.tensor(lengths, dtype=torch.int32), "h_0": states[0], "c_0": states[1]}
        results = session.run(["y", "h_n", "c_n"], {name: value.numpy() for name, value in feeds.items()})
        error = max(numpy.abs(a - b.numpy()).max() for a, b in zip(results, (y, h_n, c_n)))
        print(f"T {steps}, B {batch}: largest difference {error:.1e}")
        assert error < 1e-5


if __name__ == "__main__":
    main()
