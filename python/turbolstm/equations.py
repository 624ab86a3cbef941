"""Cells by their equations.

    from turbolstm.equations import Cell, sigmoid, tanh

    @Cell
    def my_gru(cell):
        "A GRU without a reset gate."
        h = cell.state("h")
        p = cell.from_input(2).split(2)                        # weight_ih x + bias_ih
        u = cell.weight("weight_hh", [2 * h.size, h.size]).split(2)
        z = sigmoid(p[0] + u[0] @ cell.recurrent(h))
        n = tanh(p[1] + u[1] @ cell.recurrent(h))
        return cell.define(h, (1 - z) * n + z * cell.past(h))

    layer = turbolstm.torch.Recurrent(my_gru, 64, 128)

Everything else follows from the equations: derivatives, kernels, plans, ONNX. They are run once a layer and direction to
write the network down, not at every step.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable

from . import _core
from ._core import (
    Equations,
    Term,
    concat,
    equations,
    exp,
    layer_norm,
    maximum,
    minimum,
    relu,
    row_sum,
    sigmoid,
    softplus,
    tanh,
)

__all__ = [
    "Cell",
    "Equations",
    "Term",
    "concat",
    "equations",
    "exp",
    "layer_norm",
    "maximum",
    "minimum",
    "relu",
    "row_sum",
    "sigmoid",
    "softplus",
    "tanh",
]

_COUNT = itertools.count(2)


class Cell(str):
    """A cell of one's own, usable wherever a cell's name is.

    function takes an ``Equations`` and returns the output's value, usually what ``define`` returned. Its name is that of
    the function; where that is taken (a notebook's cell is run again), a number follows. Pickled with its function.
    """

    function: Callable[[Equations], Term]

    def __new__(cls, function: Callable[[Equations], Term], name: str | None = None):
        name = name or function.__name__
        about = (function.__doc__ or "").strip().split("\n")[0]
        try:
            _core._add_cell(name, about, function)
        except _core.Error as error:
            if "already" not in str(error):
                raise
            name = f"{name}_{next(_COUNT)}"
            _core._add_cell(name, about, function)
        cell = super().__new__(cls, name)
        cell.function, cell.__module__ = function, function.__module__
        return cell

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        place = sys.modules.get(self.__module__)
        for name in self.function.__qualname__.split("."):
            place = getattr(place, name, None)
        # A decorated function stands in its module under its own name, and is found there, as functions are.
        return self.function.__qualname__ if place is self else (Cell, (self.function, str(self)))

    @property
    def equations(self) -> str:
        """As text, one line each."""
        return equations(self)
