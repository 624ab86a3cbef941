"""Fast training of recurrent networks described as graphs with delays.

``Network`` compiles recurrent layers once for every shape, ``Run`` runs them on numpy arrays and on
whatever else speaks DLPack. ``turbolstm.torch`` has drop-ins for ``torch.nn.LSTM``, ``GRU`` and
``RNN``, ``turbolstm.onnx`` and ``turbolstm.weights`` read and write files, ``train`` trains classifiers of texts. Letters of shapes: T time, B batch, I input, H hidden, P projection, D directions.
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
from .training import Training, train

__all__ = [
    "CellInfo",
    "DeviceInfo",
    "Error",
    "Network",
    "Run",
    "StateInfo",
    "TrainedRun",
    "Training",
    "ValueInfo",
    "__version__",
    "cells",
    "devices",
    "train",
]
