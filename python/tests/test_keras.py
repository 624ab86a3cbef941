"""Weights of Keras' layers against outputs of Keras itself (golden/make_keras.py)."""

import json
import pathlib

import numpy
import pytest

import turbolstm.keras

torch = pytest.importorskip("torch")
CASES = json.loads((pathlib.Path(__file__).parent / "golden" / "keras.json").read_text())["cases"]


def values(shape, seed):
    return (((numpy.arange(numpy.prod(shape)) * 37 + seed * 11) % 101) / 101 - 0.5).reshape(shape).astype(numpy.float32)


def layer_of(case, **changes):
    """What Keras' layer says of itself."""
    weights = [values(shape, i + 1) for i, shape in enumerate(case["shapes"])]
    methods = {
        "name": "layer",
        "get_config": lambda self: {**case["config"], **changes},
        "get_weights": lambda self: weights,
    }
    return type(case["kind"].split()[0], (), methods)()


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['kind']}{case['options']}")
def test_outputs_and_states_are_those_of_keras(case):
    module = turbolstm.keras.load(layer_of(case)).module()
    x = torch.from_numpy(values((3, 5, 4), 7))
    with torch.no_grad():
        y, states = module(x)
    states = states if isinstance(states, tuple) else (states,)
    if case["options"].get("go_backwards"):
        y = y.flip(1)
    numpy.testing.assert_allclose(y, case["y"], atol=1e-6)
    ours = [state[d] for d in range(states[0].shape[0]) for state in states]  # Keras: direction by direction
    numpy.testing.assert_allclose(numpy.stack(ours), case["states"], atol=1e-6)


def test_what_we_have_not_is_refused():
    lstm = CASES[0]
    with pytest.raises(ValueError, match="hard_sigmoid"):
        turbolstm.keras.load(layer_of(lstm, recurrent_activation="hard_sigmoid"))
    with pytest.raises(ValueError, match="3 weights, wants 2"):
        turbolstm.keras.load(layer_of(lstm, use_bias=False))
    with pytest.raises(TypeError, match="Dense"):
        turbolstm.keras.load(layer_of({**lstm, "kind": "Dense"}))
    both = next(case for case in CASES if case["kind"].startswith("Bidirectional"))
    with pytest.raises(ValueError, match="'sum'"):
        turbolstm.keras.load(layer_of(both, merge_mode="sum"))
