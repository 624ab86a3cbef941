"""What readers of other formats give."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy

from ._core import Network

__all__ = ["ImportedLayer"]


class ImportedLayer(NamedTuple):
    """Recurrent layers of another library as ours."""

    name: str
    options: dict[str, Any]  # as turbolstm.Network and turbolstm.torch.Recurrent take them
    batch_first: bool  # whether sequences come first there
    parameters: dict[str, numpy.ndarray]  # under PyTorch's names, with its order of gates

    def network(self, **compile_options) -> Network:
        """A ``turbolstm.Network`` of these options; what else it takes can be given here."""
        return Network(**self.options, **compile_options)

    def module(self):
        """A ``turbolstm.torch.Recurrent`` with these weights."""
        import torch

        from .torch import Recurrent

        module = Recurrent(**self.options, batch_first=self.batch_first)
        module.load_state_dict({name: torch.from_numpy(value) for name, value in self.parameters.items()})
        return module
