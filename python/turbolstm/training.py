"""Training of texts' classifiers from Python: what ``turbolstm train CONFIG`` does, with callbacks."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from . import _core
from ._core import TrainedRun

__all__ = ["Training", "train"]


class Training(NamedTuple):
    """What a training run left."""

    directory: str  # with best.safetensors, checkpoint.safetensors, vocabulary.txt, config.toml, log.csv
    epochs: list[dict[str, Any]]  # an entry an epoch: train_loss, held_out_loss, held_out_accuracy, seconds, ...

    def load(self, device: str = "auto") -> TrainedRun:
        """The weights of the best epoch, ready to answer."""
        return TrainedRun(self.directory, device)


def train(
    config: str | os.PathLike | Mapping[str, Mapping[str, Any]],
    *overrides: str,
    replace: bool = False,
    on_epoch: Callable[[dict[str, Any]], Any] | None = None,
    on_batch: Callable[[dict[str, Any]], Any] | None = None,
    progress: bool = False,
) -> Training:
    """Trains a classifier of texts, without holding the GIL.

    Args:
        config: a TOML file, or its sections as a mapping: {"data": {"kind": "tsv", "path": "reviews.tsv"}, ...}.
            ``turbolstm train --help`` tells every key; what is absent keeps its default.
        overrides: "section.key=value", applied in order.
        replace: a run that is in output.directory already.
        on_epoch: called with the entry of Training.epochs after each epoch. True ends the training with a checkpoint;
            so does an exception, which is then raised here, as is KeyboardInterrupt.
        on_batch: called after each batch with epoch, batch, batches and loss (the mean of the epoch so far).
        progress: writes a line an epoch to the error output.
    """
    if isinstance(config, Mapping):
        text, source = _toml(config), "config"
    else:
        source = os.fspath(config)
        with open(source, encoding="utf-8") as file:
            text = file.read()
    directory, epochs = _core._train(text, source, list(overrides), replace, _reporting(on_epoch, progress), on_batch)
    return Training(directory, epochs)


def _reporting(on_epoch, progress: bool):
    if not progress:
        return on_epoch

    def report(epoch):
        held_out = f"  held-out loss {epoch['held_out_loss']:.4f}  accuracy {epoch['held_out_accuracy']:.4f}"
        print(
            f"epoch {epoch['epoch']}  train loss {epoch['train_loss']:.4f}"
            f"{held_out if epoch['held_out_samples'] else ''}  {epoch['seconds']:.1f} s",
            file=sys.stderr,
        )
        return None if on_epoch is None else on_epoch(epoch)

    return report


def _toml(config: Mapping[str, Mapping[str, Any]]) -> str:
    """Sections of plain values: TOML writes texts, numbers and truth values as JSON does."""
    lines = []
    for section, keys in config.items():
        if not isinstance(keys, Mapping):
            raise TypeError(f"[config] section '{section}' is a {type(keys).__name__}, wants a mapping of its keys")
        lines.append(f"[{section}]")
        for key, value in keys.items():
            value = os.fspath(value) if isinstance(value, os.PathLike) else value
            lines.append(f"{key} = {json.dumps(value)}")
    return "\n".join(lines)
