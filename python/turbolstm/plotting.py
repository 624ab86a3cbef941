"""Pictures with matplotlib, for notebooks: a plan over time, a network, learning curves."""

from __future__ import annotations

import csv
import os
import re
import subprocess
from collections.abc import Iterable, Mapping
from typing import Any

from .planning import Plan
from .training import Training

__all__ = ["learning_curves", "network", "timeline"]


def _axes(axes, height: float):
    if axes is not None:
        return axes
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(9, height), layout="constrained")[1]


def timeline(plan: Plan, axes=None):
    """The tasks of a plan: a row a stream, a colour for each kind of task. Returns the axes."""
    axes = _axes(axes, 1.2 + 0.5 * plan.streams)
    kinds: dict[str, list] = {}
    for task in plan.tasks:
        kinds.setdefault(re.split(r"[\[ ]", task.name)[0], []).append(task)
    for i, (kind, tasks) in enumerate(kinds.items()):
        for stream in range(plan.streams):
            spans = [(1e3 * t.begin, 1e3 * (t.end - t.begin)) for t in tasks if t.stream == stream]
            label = kind if stream == tasks[0].stream else None
            if spans:
                axes.broken_barh(spans, (stream - 0.4, 0.8), facecolors=f"C{i % 10}", edgecolor="white", lw=0.3, label=label)
    axes.set(xlabel="ms", ylabel="stream", yticks=range(plan.streams), ylim=(plan.streams - 0.5, -0.5))
    axes.legend(fontsize="small", ncols=2, loc="upper left", bbox_to_anchor=(1, 1))
    return axes


def learning_curves(runs: Training | str | os.PathLike | Iterable[float] | Mapping[str, Any], axes=None):
    """Losses and accuracy by epoch, of what ``turbolstm.train`` returned, of the folder of a run, or of losses alone (an
    estimator's loss_curve_); a mapping draws several under their names. Returns the axes."""
    axes = _axes(axes, 4)
    named = runs if isinstance(runs, Mapping) else {"": runs}
    for i, (name, run) in enumerate(named.items()):
        for style, (what, values) in zip(("-", "--", ":"), _curves(run).items()):
            axes.plot(range(1, len(values) + 1), values, style, color=f"C{i}", marker=".", label=f"{name} {what}".strip())
    axes.set(xlabel="epoch")
    axes.legend()
    return axes


def _curves(run) -> dict[str, list[float]]:
    if isinstance(run, (str, os.PathLike)):
        with open(os.path.join(run, "log.csv"), newline="", encoding="utf-8") as file:
            epochs = list(csv.DictReader(file))
    elif isinstance(run, Training):
        epochs = run.epochs
    else:
        return {"loss": list(run)}
    titles = {"train_loss": "training loss", "held_out_loss": "held-out loss", "held_out_accuracy": "accuracy"}
    return {title: [float(epoch[key]) for epoch in epochs] for key, title in titles.items() if epochs and key in epochs[0]}


def network(plan: Plan, tasks: bool = False) -> bytes:
    """A drawing as SVG: the network's operators and loops, or with tasks=True what the plan cuts it into. Needs
    Graphviz's program dot; in a notebook: ``IPython.display.SVG(turbolstm.plotting.network(plan))``."""
    try:
        done = subprocess.run(
            ["dot", "-Tsvg"], input=(plan.tasks_dot if tasks else plan.network_dot).encode(), capture_output=True, check=True
        )
    except FileNotFoundError:
        raise RuntimeError("[plotting] Graphviz's program dot is not installed") from None
    return done.stdout
