#!/usr/bin/env python3
"""A PyTorch classifier of ragged sequences whose LSTM is ours: one import line differs from plain PyTorch.

    python examples/python/classify_sequences.py [--torch] [--epochs 4]

The task is a toy: does a random walk end above where it began? --torch runs the same with PyTorch's own layer.
"""

import argparse
import sys
import time

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

if "--torch" in sys.argv:
    from torch.nn import LSTM
else:
    from turbolstm.torch import LSTM  # the one line

SEQUENCES, LONGEST, HELD_OUT = 2000, 40, 400


class Classifier(nn.Module):
    """x [B, T, 1] with lengths [B] to logits [B, 2]."""

    def __init__(self, hidden=32):
        super().__init__()
        self.lstm = LSTM(1, hidden, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * hidden, 2)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        _, (h_n, _) = self.lstm(packed)
        return self.head(torch.cat([h_n[0], h_n[1]], dim=1))


def random_walks(count, generator):
    """Steps [count, T, 1], zeros behind the end; lengths [count]; labels [count]."""
    steps = torch.randn(count, LONGEST, 1, generator=generator)
    lengths = torch.randint(5, LONGEST + 1, (count,), generator=generator)
    valid = torch.arange(LONGEST)[None, :] < lengths[:, None]
    steps = steps * valid[..., None]
    return steps, lengths, (steps.sum((1, 2)) > 0).long()


def train(epochs):
    """The part of held-out sequences that are classified right, after each epoch."""
    torch.manual_seed(1)
    x, lengths, labels = random_walks(SEQUENCES, torch.Generator().manual_seed(2))
    model = Classifier()
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    accuracies = []
    for _ in range(epochs):
        for rows in torch.randperm(SEQUENCES - HELD_OUT).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[rows], lengths[rows]), labels[rows]).backward()
            optimizer.step()
        with torch.no_grad():
            guesses = model(x[-HELD_OUT:], lengths[-HELD_OUT:]).argmax(1)
        accuracies.append((guesses == labels[-HELD_OUT:]).float().mean().item())
    return accuracies


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--torch", action="store_true", help="use PyTorch's LSTM")
    parser.add_argument("--epochs", type=int, default=4)
    options = parser.parse_args()
    start = time.perf_counter()
    for epoch, accuracy in enumerate(train(options.epochs), 1):
        print(f"epoch {epoch}: {accuracy:.3f} of {HELD_OUT} held-out sequences right")
    print(f"{LSTM.__module__}.LSTM, {time.perf_counter() - start:.1f} s")


if __name__ == "__main__":
    main()
