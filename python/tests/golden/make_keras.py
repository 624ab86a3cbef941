"""Makes keras.json: outputs of Keras' recurrent layers with weights and inputs that formulas give.

KERAS_BACKEND=jax python make_keras.py > keras.json     # Keras 3.15.1, jax 0.10.2
"""

import json
import os

os.environ.setdefault("KERAS_BACKEND", "jax")
import keras
import numpy

B, T, I, H = 3, 5, 4, 3
CASES = [
    ("LSTM", {}), ("LSTM", {"use_bias": False}), ("LSTM", {"go_backwards": True}), ("GRU", {}), ("GRU", {"reset_after": False}),
    ("GRU", {"go_backwards": True}), ("SimpleRNN", {}), ("SimpleRNN", {"activation": "relu"}), ("Bidirectional LSTM", {}),
    ("Bidirectional GRU", {}), ("Bidirectional GRU", {"reset_after": False}),
]  # fmt: skip


def values(shape, seed):
    """Numbers in -0.5 to 0.5 that need no generator."""
    return (((numpy.arange(numpy.prod(shape)) * 37 + seed * 11) % 101) / 101 - 0.5).reshape(shape)


KEPT = {"units", "activation", "recurrent_activation", "use_bias", "go_backwards", "reset_after", "merge_mode", "layer",
        "recurrent_dropout", "class_name", "config"}  # fmt: skip


def essential(config):
    return {key: essential(value) if isinstance(value, dict) else value for key, value in config.items() if key in KEPT}


def rounded(array):
    return [rounded(part) for part in array] if array.ndim else float(f"{array:.8g}")


def main():
    x = values((B, T, I), 7).astype("float32")
    cases = []
    for kind, options in CASES:
        name = kind.split()[-1]
        layer = getattr(keras.layers, name)(H, return_sequences=True, return_state=True, **options)
        if kind.startswith("Bidirectional"):
            layer = keras.layers.Bidirectional(layer)
        layer(x)
        layer.set_weights([values(w.shape, i + 1).astype("float32") for i, w in enumerate(layer.get_weights())])
        y, *states = [numpy.asarray(result) for result in layer(x)]
        cases.append({
            "kind": kind, "options": options, "shapes": [list(w.shape) for w in layer.get_weights()],
            "config": essential(layer.get_config()), "y": rounded(y), "states": [rounded(s) for s in states],
        })  # fmt: skip
    text = json.dumps({"keras": keras.__version__, "cases": cases})
    print(text.replace('{"kind"', '\n{"kind"'))


main()
