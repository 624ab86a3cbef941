"""What a network is cut into, and when it runs."""

from __future__ import annotations

from typing import Any, NamedTuple

from . import _core

__all__ = ["Plan", "Task", "plan"]


class Task(NamedTuple):
    """A piece of work."""

    name: str
    stream: int
    steps: tuple[int, int]  # from, up to
    sequences: tuple[int, int]  # from, up to
    begin: float  # seconds
    end: float


class Plan(NamedTuple):
    """Tasks on streams; every plan has been verified: no task reads what may not be written yet."""

    streams: int
    time_block: int  # steps of a task
    row_tile: int  # sequences of a task
    estimate: float  # seconds, by the cost model
    memory_bytes: int  # beside inputs and parameters
    tasks: list[Task]  # by stream, in order; times as estimated, or as measured
    schedule: str  # as text that ``turbolstm plan --check`` reads back
    trace: str  # JSON for chrome://tracing and https://ui.perfetto.dev
    svg: str  # the tasks over time, as a picture; a notebook shows it for the plan
    tasks_dot: str  # for Graphviz
    network_dot: str  # for Graphviz

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return (
            f"<plan: {len(self.tasks)} tasks on {self.streams} streams, blocks of {self.time_block} steps, tiles of "
            f"{self.row_tile} sequences, {1e3 * self.estimate:.3f} ms>"
        )


def plan(
    cell: str,
    input_size: int,
    hidden_size: int,
    *,
    steps: int,
    batch: int,
    training: bool = True,
    measure: bool = False,
    precision: str = "fp32",
    schedule: str = "auto",
    threads: int = 0,
    time_block: int = 0,
    row_tile: int = 0,
    **layers: Any,
) -> Plan:
    """Plans layers on the CPU.

    Args:
        cell: as ``turbolstm.Network`` takes it.
        input_size: I.
        hidden_size: H.
        steps: T.
        batch: B.
        training: with the backward pass to the input and all parameters.
        measure: runs the plan on made-up numbers; the tasks' times are then those of that run.
        precision: "fp32" or "bf16".
        schedule: "sequential", "whole-window", "wavefront", "cell-wavefront", "turbolstm" or "auto", the best of them.
        threads: streams; 0: one a core.
        time_block: steps of a task; 0: chosen.
        row_tile: sequences of a task; 0: chosen.
        **layers: what else ``turbolstm.Network`` takes: num_layers, bidirectional, ...
    """
    options = {"cell": cell, "input_size": input_size, "hidden_size": hidden_size, **layers}
    fields = _core._plan(options, steps, batch, training, measure, precision, schedule, threads, time_block, row_tile)
    fields["tasks"] = [
        Task(name, stream, (t0, t1), (b0, b1), begin, end)
        for name, stream, t0, t1, b0, b1, begin, end in fields["tasks"]
    ]
    return Plan(**fields)
