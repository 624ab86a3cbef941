#!/usr/bin/env python3
"""A plain PyTorch script that trains an LSTM on the Large Movie Review Dataset; one import line makes it ours.

    python examples/python/imdb.py /where/aclImdb [--torch] [--epochs 3] [--onnx model.onnx]

The data set is at https://ai.stanford.edu/~amaas/data/sentiment/. --torch runs PyTorch's own layer, --onnx exports the
layer afterwards.
"""

import argparse
import collections
import pathlib
import re
import sys
import time

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence

if "--torch" in sys.argv:
    from torch.nn import LSTM
else:
    from turbolstm.torch import LSTM  # the one line

LONGEST, WORDS = 400, 20000


def read(folder):
    """(words, label) of each review below folder."""
    for label, name in enumerate(("neg", "pos")):
        for path in sorted((folder / name).glob("*.txt")):
            yield re.findall(r"[a-z']+", path.read_text(encoding="utf-8").lower())[:LONGEST], label


class Classifier(nn.Module):
    """tokens [B, T] with lengths [B] to logits [B, 2]."""

    def __init__(self, words, hidden=128):
        super().__init__()
        self.embedding = nn.Embedding(words, hidden, padding_idx=0)
        self.lstm = LSTM(hidden, hidden, batch_first=True)
        self.dropout = nn.Dropout(0.5)
        self.head = nn.Linear(hidden, 2)

    def forward(self, tokens, lengths):
        x = self.dropout(self.embedding(tokens))
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        _, (h_n, _) = self.lstm(packed)
        return self.head(self.dropout(h_n[-1]))


def batches(reviews, size, shuffle):
    """Batches of similar lengths."""
    order = torch.randperm(len(reviews)).tolist() if shuffle else range(len(reviews))
    for begin in range(0, len(order), 50 * size):
        some = sorted(order[begin : begin + 50 * size], key=lambda i: len(reviews[i][0]))
        for first in range(0, len(some), size):
            tokens, labels = zip(*(reviews[i] for i in some[first : first + size]))
            lengths = torch.tensor([len(row) for row in tokens])
            yield pad_sequence(tokens, batch_first=True), lengths, torch.tensor(labels)


def accuracy(model, reviews):
    model.eval()
    right = 0
    with torch.no_grad():
        for tokens, lengths, labels in batches(reviews, 64, False):
            right += (model(tokens, lengths).argmax(1) == labels).sum().item()
    model.train()
    return right / len(reviews)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--torch", action="store_true", help="use PyTorch's LSTM")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--onnx", help="file to export the trained layer to")
    options = parser.parse_args()
    torch.manual_seed(1)
    parts = {part: list(read(options.data / part)) for part in ("train", "test")}
    counts = collections.Counter(word for words, _ in parts["train"] for word in words)
    ids = {word: i + 2 for i, (word, _) in enumerate(counts.most_common(WORDS))}
    train, test = (
        [(torch.tensor([ids.get(word, 1) for word in words] or [1]), label) for words, label in parts[part]]
        for part in ("train", "test")
    )
    model = Classifier(len(ids) + 2)
    optimizer = torch.optim.Adam(model.parameters(), 2e-3)
    for epoch in range(1, options.epochs + 1):
        start = time.perf_counter()
        for tokens, lengths, labels in batches(train, 64, True):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(tokens, lengths), labels).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        seconds = time.perf_counter() - start
        print(f"epoch {epoch}: {accuracy(model, test):.4f} of {len(test)} test reviews right, {seconds:.1f} s of training")
    print(f"{LSTM.__module__}.LSTM")
    if options.onnx:
        import turbolstm.onnx

        turbolstm.onnx.export(model.lstm, options.onnx)


if __name__ == "__main__":
    main()
