"""Models to and from ONNX files.

``export`` writes layers or a trained run as an ONNX model whose batch and time are symbolic and whose
``sequence_lens`` is an input; ``load`` reads the recurrent nodes of an ONNX model as layers of ours.
Needs neither the package onnx nor protobuf for Python.
"""

from __future__ import annotations

import os
from typing import Any

import numpy

from . import _core
from .imported import ImportedLayer

__all__ = ["export", "load"]

_WHERE = "[turbolstm.onnx]"


def load(path: str | os.PathLike) -> list[ImportedLayer]:
    """The LSTM, GRU and RNN nodes of a model's main graph, in its order.

    clip, input_forget, direction, layout, linear_before_reset and peepholes are taken over; weights must be float32
    constants of the file. Error, naming the node: other activations than the operator's own (an RNN may have Relu),
    or whatever else our cells have not.
    """
    return [ImportedLayer(*fields) for fields in _core.import_onnx_layers(os.fspath(path))]


def export(what: Any, path: str | os.PathLike) -> None:
    """Writes an ONNX model (opset 14), replacing the file at once or not at all.

    Args:
        what: the folder of a run that was trained: inputs tokens [T, B] int64 and sequence_lens [B] int32, outputs
            logits and probabilities [B, classes]. Or a layer of turbolstm.torch or torch.nn.LSTM, GRU or RNN: inputs
            x [T, B, I] ([B, T, I] if batch_first), sequence_lens [B] int32 and the initial states h_0 (c_0)
            [D * L, B, n], outputs y and the final states h_n (c_n).
        path: the file.

    LSTM, GRU and RNN become ONNX's operators of these names, other cells Scan nodes. Dropout does nothing, zoneout is
    its mean, precision is float32.
    """
    if isinstance(what, (str, os.PathLike)):
        _core.export_run_to_onnx(os.fspath(what), os.fspath(path))
        return
    options, parameters = _describe(what)
    _core.export_layers_to_onnx(options, parameters, bool(what.batch_first), os.fspath(path))


def _describe(module) -> tuple[dict[str, Any], dict[str, numpy.ndarray]]:
    """Options and parameters of a layer of PyTorch's or ours."""
    settings = getattr(module, "_settings", None)
    if settings is not None:
        options = settings()._asdict()
        for training_only in ("dropout", "recurrent_dropout", "precision"):
            options.pop(training_only, None)
        options["reversed"] = list(options["reversed"])
    else:
        cells = {"LSTM": "lstm", "GRU": "gru", "RNN_TANH": "rnn_tanh", "RNN_RELU": "rnn_relu"}
        mode = getattr(module, "mode", None)
        if mode not in cells:
            raise TypeError(
                f"{_WHERE} got a {type(module).__name__}, wants the folder of a run, a layer of turbolstm.torch, or "
                "torch.nn.LSTM, GRU or RNN"
            )
        names = ("input_size", "hidden_size", "num_layers", "bias", "bidirectional", "proj_size")
        options = {name: getattr(module, name) for name in names}
        options["cell"] = "lstm_projection" if module.proj_size else cells[mode]
    parameters = {
        name: numpy.ascontiguousarray(parameter.detach().cpu().float().numpy())
        for name, parameter in module.named_parameters()
    }
    return options, parameters
