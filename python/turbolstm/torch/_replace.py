"""Turning layers of PyTorch's into ours."""

from __future__ import annotations

import torch

from ._modules import GRU, LSTM, RNN
from ._networks import RUNS, WANTED, WHERE

_REPLACEMENTS = {torch.nn.LSTM: LSTM, torch.nn.GRU: GRU, torch.nn.RNN: RNN}


def replace(model: torch.nn.Module) -> torch.nn.Module:
    """Turns every ``torch.nn.LSTM``, ``GRU`` and ``RNN`` of a model into this module's, and returns the model.

    They stay the same objects with the same parameters and hooks, so optimisers go on working. Classes derived from
    PyTorch's are left alone. Error, before anything is changed: parameters of one of them are such as these layers do not
    run with.
    """
    found = [(name, module) for name, module in model.named_modules() if type(module) in _REPLACEMENTS]
    for name, module in found:
        for parameter in module.parameters():
            if parameter.dtype not in RUNS.get(parameter.device.type, ()):
                raise ValueError(
                    f"{WHERE} {name or 'the model'} has {parameter.dtype} parameters on {parameter.device}, wants {WANTED}"
                )
    for _, module in found:
        module.__class__ = _REPLACEMENTS[type(module)]
        module._begin(0)
        module.layer_norm = module.peephole = False
        module.recurrent_dropout = module.zoneout = 0.0
        module.reversed = ()
        module.precision = "auto"
    return model
