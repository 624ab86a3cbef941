"""Fast training of recurrent networks described as graphs with delays.

``Network`` compiles recurrent layers once for every shape, ``Run`` runs them on numpy arrays and on
whatever else speaks DLPack. ``train`` trains classifiers of texts. Modules:

- ``turbolstm.torch``: drop-ins for ``torch.nn.LSTM``, ``GRU`` and ``RNN``
- ``turbolstm.sklearn``: estimators over sequences in scikit-learn's style
- ``turbolstm.onnx``, ``turbolstm.keras``, ``turbolstm.weights``: models and weights of others
- ``turbolstm.equations``: cells of one's own
- ``turbolstm.plotting``: pictures for notebooks

Letters of shapes: T time, B batch, I input, H hidden, P projection, D directions.
"""

from ._core import (
    CellInfo,
    DeviceInfo,
    Error,
    Network,
    Run,
    StateInfo,
    TrainedRun,
    ValueInfo,
    __version__,
    cells,
    devices,
)
from .equations import Cell
from .planning import Plan, plan
from .training import Training, train

__all__ = [
    "Cell",
    "CellInfo",
    "DeviceInfo",
    "Error",
    "Network",
    "Plan",
    "Run",
    "StateInfo",
    "TrainedRun",
    "Training",
    "ValueInfo",
    "__version__",
    "cells",
    "devices",
    "plan",
    "train",
]
