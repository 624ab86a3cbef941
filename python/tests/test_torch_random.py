"""Random shapes and options against PyTorch and against central differences."""

import numpy
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
hypothesis = pytest.importorskip("hypothesis")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import turbolstm
import turbolstm.torch as turbo

CHECK = {"deadline": None, "derandomize": True, "suppress_health_check": list(HealthCheck)}
SIZES = st.integers(1, 6)


@st.composite
def cases(draw):
    kind = draw(st.sampled_from(["LSTM", "GRU", "RNN"]))
    options = {
        "input_size": draw(SIZES), "hidden_size": draw(st.integers(2, 9)), "num_layers": draw(st.integers(1, 3)),
        "bias": draw(st.booleans()), "batch_first": draw(st.booleans()), "bidirectional": draw(st.booleans()),
    }  # fmt: skip
    if kind == "RNN":
        options["nonlinearity"] = draw(st.sampled_from(["tanh", "relu"]))
    if kind == "LSTM" and draw(st.booleans()):
        options["proj_size"] = draw(st.integers(1, options["hidden_size"] - 1))
    steps, batch = draw(st.integers(1, 9)), draw(st.integers(1, 6))
    lengths = draw(st.none() | st.lists(st.integers(1, steps), min_size=batch, max_size=batch))
    return kind, options, steps, batch, lengths, draw(st.booleans()), draw(st.integers(0, 2**20))


def results(layer, x, states, lengths, weights):
    """Outputs, final states and gradients of a random weighting of all of them."""
    x = x.clone().requires_grad_()
    states = None if states is None else [state.clone().requires_grad_() for state in states]
    hx = states if states is None or len(states) > 1 else states[0]
    hx = tuple(hx) if isinstance(hx, list) else hx
    if lengths is None:
        y, finals = layer(x, hx)
    else:
        first = layer.batch_first
        packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, first, enforce_sorted=False)
        y, finals = layer(packed, hx)
        y = torch.nn.utils.rnn.pad_packed_sequence(y, first, total_length=x.shape[1 if first else 0])[0]
    values = [y, *(finals if isinstance(finals, tuple) else (finals,))]
    sum((value * weight[: value.numel()].view_as(value)).sum() for value, weight in zip(values, weights)).backward()
    leaves = [x, *(states or []), *layer.parameters()]
    return [value.detach() for value in values] + [leaf.grad for leaf in leaves]


@settings(max_examples=60, **CHECK)
@given(cases())
def test_random_layers_agree_with_pytorch(case):
    kind, options, steps, batch, lengths, given_states, seed = case
    torch.manual_seed(seed)
    theirs = getattr(torch.nn, kind)(**options)
    ours = getattr(turbo, kind)(**options)
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(*((batch, steps) if options["batch_first"] else (steps, batch)), options["input_size"])
    states = None
    if given_states:
        rows = options["num_layers"] * (1 + options["bidirectional"])
        states = [torch.randn(rows, batch, options.get("proj_size") or options["hidden_size"])]
        if kind == "LSTM":
            states.append(torch.randn(rows, batch, options["hidden_size"]))
    weights = [torch.randn(2000) for _ in range(3)]
    for one, other in zip(results(ours, x, states, lengths, weights), results(theirs, x, states, lengths, weights)):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=2e-5)


CELLS = {cell.name: cell for cell in turbolstm.cells()}


@settings(max_examples=40, **CHECK)
@given(st.sampled_from(sorted(CELLS)), SIZES, st.integers(2, 6), st.booleans(), st.integers(1, 7), st.integers(0, 2**20))
def test_gradients_of_every_cell_agree_with_central_differences(name, inputs, hidden, both, steps, seed):
    """Of float32, so along random directions only; float64 is refused (test_torch_errors.py)."""
    torch.manual_seed(seed)
    size = 1 if CELLS[name].projects else 0
    layer = turbo.Recurrent(name, inputs, hidden, bidirectional=both, proj_size=size)
    x = torch.randn(steps, 3, inputs)
    lengths = torch.randint(0, steps + 1, (3,))
    leaves = [x, *layer.parameters()]
    directions = [torch.randn_like(leaf) for leaf in leaves]
    weight = torch.randn(steps, 3, (1 + both) * (size or hidden))

    def loss():
        return (layer(x, lengths=lengths)[0].double() * weight).sum()

    x.requires_grad_()
    loss().backward()
    slope = sum((leaf.grad * direction).sum().double() for leaf, direction in zip(leaves, directions) if leaf.grad is not None)
    step = 2e-3
    ends = []
    with torch.no_grad():
        for sign in (-1, 1, 0):
            for leaf, direction in zip(leaves, directions):
                leaf += sign * step * direction
            ends.append(loss())
            for leaf, direction in zip(leaves, directions):
                leaf -= sign * step * direction
    left, right = (ends[2] - ends[0]) / step, (ends[1] - ends[2]) / step
    if abs(left - right) > 0.05 * (1 + abs(left) + abs(right)):
        return  # a kink (relu, max) lies between
    torch.testing.assert_close(slope, (left + right) / 2, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("make", [numpy.asarray, torch.from_numpy])
def test_arrays_go_in_and_out_without_a_copy(make):
    """numpy's and PyTorch's memory, through DLPack: bound where it lies, and read into where it lies."""
    x, y = numpy.ones((4, 2, 3), numpy.float32), numpy.empty((4, 2, 5), numpy.float32)
    network = turbolstm.Network("gru", 3, 5)
    run = network.run()
    run.set_shape(4, 2)
    run.bind("x", make(x))
    for parameter in network.parameters:
        run.bind(parameter.name, make(network.initial_values(parameter.name, seed=3)))
    outputs = []
    for value in (1.0, -2.0):
        x[:] = value  # seen, since nothing was copied
        run.forward()
        run.read_into("y", make(y))
        outputs.append(y.copy())
    assert not numpy.allclose(outputs[0], outputs[1])
    values = torch.from_dlpack(torch.from_numpy(y)) if hasattr(torch, "from_dlpack") else torch.from_numpy(y)
    values[0, 0, 0] = 7.0
    assert y[0, 0, 0] == 7.0
    strided = numpy.ones((4, 2, 6), numpy.float32)[:, :, ::2]
    with pytest.raises(ValueError, match="not contiguous"):
        run.bind("x", make(strided) if make is numpy.asarray else torch.ones(4, 2, 6)[:, :, ::2])
    with pytest.raises(ValueError, match="float64"):
        run.bind("x", make(x.astype(numpy.float64)))
