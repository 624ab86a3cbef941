"""Plain float64 loops that the low-level tests compare with, and the tolerances of all Python tests."""

import numpy as np

# float32 against float64 or against PyTorch's float32, relative to the largest magnitude of a tensor, at least 1.
TOLERANCE = 2e-5
# Gradients by central differences of float32 results: the step and what they may be off.
DIFFERENCE_STEP, DIFFERENCE_TOLERANCE = 3e-3, 5e-3


def assert_close(got, wanted, what="", tolerance=TOLERANCE):
    got, wanted = np.asarray(got, np.float64), np.asarray(wanted, np.float64)
    assert got.shape == wanted.shape, f"{what}: shape {got.shape}, wants {wanted.shape}"
    if wanted.size == 0:
        return
    assert np.isfinite(got).all(), f"{what}: not finite"
    error = np.abs(got - wanted).max()
    assert error <= tolerance * max(1.0, np.abs(wanted).max()), f"{what}: off by {error}"


def sigmoid(a):
    return 1 / (1 + np.exp(-a))


def lstm(x, parameters, h, c, lengths=None, resets=None):
    """One layer, forward in time. x [T, B, I]; parameters by PyTorch's names of layer 0; returns y, h_n, c_n."""
    steps, batch, _ = x.shape
    lengths = np.full(batch, steps) if lengths is None else lengths
    h, c = h.astype(np.float64), c.astype(np.float64)
    y = np.zeros((steps, batch, h.shape[1]))
    for t in range(steps):
        past_h, past_c = h, c
        if resets is not None:
            past_h, past_c = (np.where(resets[t][:, None], 0, past) for past in (h, c))
        a = x[t] @ parameters["weight_ih_l0"].T.astype(np.float64) + past_h @ parameters["weight_hh_l0"].T
        a = a + parameters["bias_ih_l0"] + parameters["bias_hh_l0"]
        i, f, g, o = np.split(a, 4, axis=1)
        next_c = sigmoid(f) * past_c + sigmoid(i) * np.tanh(g)
        next_h = sigmoid(o) * np.tanh(next_c)
        alive = (t < lengths)[:, None]
        h, c = np.where(alive, next_h, h), np.where(alive, next_c, c)
        y[t] = np.where(alive, next_h, 0)
    return y, h, c
