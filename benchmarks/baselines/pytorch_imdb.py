#!/usr/bin/env python3
"""Trains the classifier of `turbolstm train` in PyTorch on the CPU, on the batches and from the initial parameters that
export_training wrote (its folder is --data): embedding, dropout, nn.LSTM, pooling, dropout, linear; cross-entropy,
clipping by the global norm, Adam. The dropout masks are PyTorch's own.

Ragged batches can be run in two ways that give the same numbers: "packed" (pack_padded_sequence) and "padded" (the
whole rectangle, pooling over the valid steps). Without --variant both are timed on a few batches of all lengths and the
faster one trains.

JSON: {"implementation", "version", "threads", "variant", "variant_seconds", "epochs": [{"epoch", "train_loss",
"held_out_loss", "held_out_accuracy", "seconds", "evaluation_seconds"}]}; with --steps N "losses" of the first N
batches, each before its update, in place of epochs.
"""

import argparse
import copy
import json
import os
import pathlib
import sys
import time
import tomllib

PROBED_BATCHES, PROBE_ROUNDS = 5, 2


def arguments():
    parser = argparse.ArgumentParser(description="PyTorch's side of the IMDB comparison.")
    parser.add_argument("--data", type=pathlib.Path, required=True, help="folder of export_training")
    parser.add_argument("--variant", choices=("packed", "padded"), help="default: the faster one")
    parser.add_argument("--steps", type=int, default=0, help="only the losses of the first steps")
    parser.add_argument("--seed", type=int, default=1, help="of the dropout masks")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=pathlib.Path, help="write results here (default: standard output)")
    return parser.parse_args()


def read_config(folder):
    config = tomllib.loads((folder / "config.toml").read_text())
    wanted = {("model", "cell"): "lstm", ("model", "bidirectional"): False, ("train", "optimizer"): "adam"}
    for (section, key), value in wanted.items():
        if config[section][key] != value:
            sys.exit(f"[{section}.{key}] is {config[section][key]!r}, the comparison wants {value!r}")
    return config


def read_batches(path):
    """List of tokens [T, B], lengths [B] (descending), labels [B]."""
    file = load_file(path)
    sizes = file["sizes"].tolist()
    rows = [b for _, b in sizes]
    tokens = file["tokens"].long().split([t * b for t, b in sizes])
    lengths, labels = (file[name].long().split(rows) for name in ("lengths", "labels"))
    return [(x.view(t, b), n, y) for (t, b), x, n, y in zip(sizes, tokens, lengths, labels)]


def make_model(config, parameters):
    options = config["model"]

    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            vocabulary, width = parameters["embedding.weight"].shape
            classes, features = parameters["head.weight"].shape
            self.embedding = nn.Embedding(vocabulary, width)
            between = options["dropout"] if options["layers"] > 1 else 0.0
            self.lstm = nn.LSTM(width, options["hidden"], options["layers"], dropout=between)
            self.head = nn.Linear(features, classes)
            self.dropout = nn.Dropout(options["dropout"])

        def forward(self, tokens, lengths, variant):
            x = self.dropout(self.embedding(tokens))
            if variant == "packed":
                output, (h, _) = self.lstm(pack_padded_sequence(x, lengths))
                if options["pooling"] == "last":
                    return self.head(self.dropout(h[-1]))
                output, _ = pad_packed_sequence(output)
            else:
                output, _ = self.lstm(x)
            return self.head(self.dropout(self.pool(output, lengths)))

        def pool(self, output, lengths):  # [T, B, H]
            steps = torch.arange(output.shape[0])[:, None, None]
            valid = steps < lengths[None, :, None]
            if options["pooling"] == "mean":
                return (output * valid).sum(0) / lengths[:, None]
            if options["pooling"] == "max":
                return output.masked_fill(~valid, -torch.inf).amax(0)
            return output[lengths - 1, torch.arange(lengths.shape[0])]

    model = Classifier()
    model.load_state_dict(parameters)
    return model


class Training:
    def __init__(self, model, config, variant):
        options = config["train"]
        self.model, self.variant, self.clip_norm = model, variant, options["clip_norm"]
        self.optimizer = torch.optim.Adam(model.parameters(), lr=options["learning_rate"],
                                          weight_decay=options["weight_decay"], fused=True)

    def step(self, batch):
        """The mean loss of the batch before the update."""
        tokens, lengths, labels = batch
        loss = nn.functional.cross_entropy(self.model(tokens, lengths, self.variant), labels)
        self.optimizer.zero_grad()
        loss.backward()
        if self.clip_norm > 0:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.clip_norm)
        self.optimizer.step()
        return loss.item()

    def epoch(self, batches):
        self.model.train()
        return sum(self.step(batch) * len(batch[2]) for batch in batches) / sum(len(b[2]) for b in batches)

    def evaluate(self, batches):
        """Mean loss, share of right answers."""
        self.model.eval()
        loss, right, samples = 0.0, 0, 0
        for tokens, lengths, labels in batches:
            with torch.no_grad():
                logits = self.model(tokens, lengths, self.variant)
            loss += nn.functional.cross_entropy(logits, labels, reduction="sum").item()
            right += (logits.argmax(1) == labels).sum().item()
            samples += len(labels)
        return loss / samples, right / samples


def seconds_by_variant(model, config, batches):
    """Least seconds for a few training steps over batches of all lengths, by variant, in turn."""
    by_length = sorted(batches, key=lambda batch: batch[0].shape[0])
    probes = by_length[:: max(1, len(by_length) // PROBED_BATCHES)][:PROBED_BATCHES]
    trainings = {v: Training(copy.deepcopy(model), config, v) for v in ("packed", "padded")}
    times = {variant: [] for variant in trainings}
    for training in trainings.values():
        training.epoch(probes[:1])  # warms up
    for _ in range(PROBE_ROUNDS):
        for variant, training in trainings.items():
            start = time.perf_counter()
            training.epoch(probes)
            times[variant].append(time.perf_counter() - start)
    return {variant: min(values) for variant, values in times.items()}


def train(training, options, config):
    held_out = read_batches(options.data / "held_out.safetensors")
    epochs = []
    for number in range(config["train"]["epochs"]):
        batches = read_batches(options.data / f"epoch-{number}.safetensors")
        start = time.perf_counter()
        train_loss = training.epoch(batches)
        trained = time.perf_counter()
        held_out_loss, accuracy = training.evaluate(held_out)
        end = time.perf_counter()
        epochs.append({"epoch": number + 1, "train_loss": train_loss, "held_out_loss": held_out_loss,
                       "held_out_accuracy": accuracy, "seconds": trained - start, "evaluation_seconds": end - trained})
        print(json.dumps(epochs[-1]), file=sys.stderr, flush=True)
    return epochs


def main():
    options = arguments()
    config = read_config(options.data)
    torch.set_num_threads(options.threads)
    model = make_model(config, load_file(options.data / "initial.safetensors"))
    report = {"implementation": "PyTorch", "version": torch.__version__, "threads": options.threads}
    first = read_batches(options.data / "epoch-0.safetensors")
    variant = options.variant
    if not variant:
        report["variant_seconds"] = seconds_by_variant(model, config, first)
        variant = min(report["variant_seconds"], key=report["variant_seconds"].get)
    report["variant"] = variant
    torch.manual_seed(options.seed)
    training = Training(model, config, variant)
    if options.steps:
        model.train()
        report["losses"] = [training.step(batch) for batch in first[: options.steps]]
    else:
        report["epochs"] = train(training, options, config)
    text = json.dumps(report, indent=1) + "\n"
    options.json.write_text(text) if options.json else sys.stdout.write(text)


if __name__ == "__main__":
    # PyTorch reads the thread count when it is loaded.
    os.environ.setdefault("OMP_NUM_THREADS", "2")
    import torch
    from safetensors.torch import load_file
    from torch import nn
    from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

    main()
