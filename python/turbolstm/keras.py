"""Weights of Keras' recurrent layers as layers of ours; needs no Keras itself.

Keras has its matrices as [I, gates * H], GRU's gates in the order z r h, and of a GRU with reset_after two rows of
biases. Padding differs: under a mask Keras repeats the last output, unless zero_output_for_mask; ours are zeros.
"""

from __future__ import annotations

from typing import Any

import numpy

from .imported import ImportedLayer

__all__ = ["load"]

_WHERE = "[turbolstm.keras]"
_GATES = {"LSTM": 4, "GRU": 3, "SimpleRNN": 1}
# Block k of our rows is this block of Keras'.
_ORDER = {"LSTM": (0, 1, 2, 3), "GRU": (1, 0, 2), "SimpleRNN": (0,)}


def load(layer: Any) -> ImportedLayer:
    """Turns a built keras.layers.LSTM, GRU, SimpleRNN, or Bidirectional of one of them, into one of ours.

    The outputs of ours stand in the order of time: with go_backwards Keras' own are reversed, so flip them to compare.
    Dropout on a layer's inputs (Keras' ``dropout``) is no part of ours and left out. Error: other activations than tanh
    and sigmoid (a SimpleRNN may have relu), another merge_mode than "concat", or anything else that we have not.
    """
    kind, config = type(layer).__name__, layer.get_config()
    weights = [numpy.asarray(weight, numpy.float32) for weight in layer.get_weights()]
    both = kind == "Bidirectional"
    if both:
        if config.get("merge_mode", "concat") != "concat":
            raise ValueError(f"{_WHERE} merge_mode is {config['merge_mode']!r}, wants 'concat'")
        kind, config = config["layer"]["class_name"], config["layer"]["config"]
    if kind not in _GATES:
        raise TypeError(f"{_WHERE} got a {kind}, wants an LSTM, GRU or SimpleRNN, or Bidirectional of one")
    each = 3 if config["use_bias"] else 2
    if len(weights) != each * (1 + both):
        raise ValueError(f"{_WHERE} the layer has {len(weights)} weights, wants {each * (1 + both)}; is it built?")
    options = {
        "cell": _cell(kind, config),
        "input_size": weights[0].shape[0],
        "hidden_size": config["units"],
        "bias": config["use_bias"],
        "bidirectional": both,
        "recurrent_dropout": config.get("recurrent_dropout", 0.0),
        "reversed": [True] if config.get("go_backwards") and not both else [],
    }
    if both and config.get("go_backwards"):
        raise ValueError(f"{_WHERE} the first layer of a Bidirectional goes backwards, wants it forwards")
    parameters: dict[str, numpy.ndarray] = {}
    for d, suffix in enumerate(("_l0", "_l0_reverse")[: 1 + both]):
        parameters.update(_direction(kind, suffix, weights[d * each : (d + 1) * each]))
    return ImportedLayer(layer.name, options, True, parameters)


def _cell(kind: str, config: dict[str, Any]) -> str:
    activation, gate = config["activation"], config.get("recurrent_activation", "sigmoid")
    allowed = ("tanh", "relu") if kind == "SimpleRNN" else ("tanh",)
    if activation not in allowed or gate != "sigmoid":
        raise ValueError(
            f"{_WHERE} {kind} has the activations {activation} and {gate}, wants {' or '.join(allowed)} and sigmoid"
        )
    if kind == "SimpleRNN":
        return "rnn_" + activation
    if kind == "GRU":
        return "gru" if config.get("reset_after", True) else "gru_original"
    return "lstm"


def _direction(kind: str, suffix: str, weights: list[numpy.ndarray]) -> dict[str, numpy.ndarray]:
    def rows(array):  # [gates * H, ..] in our order
        parts = numpy.split(array, _GATES[kind])
        return numpy.ascontiguousarray(numpy.concatenate([parts[k] for k in _ORDER[kind]]))

    parameters = {"weight_ih" + suffix: rows(weights[0].T), "weight_hh" + suffix: rows(weights[1].T)}
    if len(weights) == 3:
        bias = weights[2]
        inner, outer = bias if bias.ndim == 2 else (bias, numpy.zeros_like(bias))
        parameters["bias_ih" + suffix], parameters["bias_hh" + suffix] = rows(inner), rows(outer)
    return parameters
