"""Faults that users of other libraries reported, as tests of the Python package; docs/testing.md names the rows."""

import numpy
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import turbolstm
import turbolstm.onnx
import turbolstm.torch as turbo


def small_lstm(bidirectional=False):
    """I = 1, H = 3, all recurrent weights .1, no bias; the answers below come from loops in double precision."""
    layer = turbo.LSTM(1, 3, bias=False, bidirectional=bidirectional)
    blocks = {"i": [0.1, 0.2, 0.3], "o": [0.4, 1, 2], "f": [3, 4, 10], "g": [11, 12, 13]}
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            if "weight_ih" in name:
                parameter.copy_(torch.tensor([*blocks["i"], *blocks["f"], *blocks["g"], *blocks["o"]])[:, None])
            else:
                parameter.fill_(0.1)
    return layer


X = torch.tensor([[[1.0], [2.0]], [[10.0], [11.0]]])  # [T, B, I]


def near(values, expected):
    numpy.testing.assert_allclose(values.detach(), expected, atol=1e-5)


def test_known_answers_with_lengths():
    """Rows 1, 7: also where a sequence is empty, and backwards from the last valid step."""
    both = small_lstm(bidirectional=True)
    _, (h, c) = both(X)
    near(h[0], [[0.84196719, 0.89402526, 0.91073048], [0.85882828, 0.90703777, 0.92382452]])
    near(c[0], [[1.27731147, 1.44181041, 1.53179041], [1.3249796, 1.51063103, 1.61451543]])
    near(h[1], [[0.55391603, 0.69201493, 0.82696019], [0.64046412, 0.82303363, 0.9161071]])
    y, (h, c) = both(X, lengths=[1, 2])
    for direction in (0, 1):
        near(h[direction, 0], [0.28828835, 0.36581863, 0.45679406])
        near(c[direction, 0], [0.52497919, 0.549834, 0.57444252])
    assert not y[1, 0].any()
    near(h[0, 1], [0.85882828, 0.90703777, 0.92382452])
    states = (torch.randn(2, 2, 3, requires_grad=True), torch.randn(2, 2, 3, requires_grad=True))
    x = X.clone().requires_grad_()
    y, (h, c) = both(x, states, lengths=[0, 2])
    assert not y[:, 0].any() and torch.equal(h[:, 0], states[0][:, 0]) and torch.equal(c[:, 0], states[1][:, 0])
    (y.sum() + (h * 2).sum() + (c * 3).sum()).backward()
    assert not x.grad[:, 0].any()
    near(states[0].grad[:, 0], numpy.full((2, 3), 2.0))
    near(states[1].grad[:, 0], numpy.full((2, 3), 3.0))


@pytest.mark.parametrize("kind", [turbo.LSTM, turbo.GRU, turbo.RNN])
def test_padding_is_never_read(kind):
    """Row 7: numbers that are none in the padding reach neither outputs nor gradients."""
    torch.manual_seed(1)
    layer = kind(3, 4, num_layers=2, bidirectional=True)
    x = torch.randn(6, 3, 3)
    lengths = [6, 2, 4]
    spoilt = x.clone()
    for b, length in enumerate(lengths):
        spoilt[length:, b] = float("nan")
    found = []
    for value in (x, spoilt):
        value.requires_grad_()
        layer.zero_grad()
        y = layer(value, lengths=lengths)[0]
        y.square().sum().backward()
        found.append([y, value.grad, *(parameter.grad.clone() for parameter in layer.parameters())])
    for one, other in zip(*found):
        assert torch.isfinite(other).all() and torch.equal(one, other)


def test_a_gru_without_a_state_has_its_recurrent_bias():
    """Row 22."""
    layer = turbo.GRU(1, 1)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.zero_()
        layer.bias_hh_l0[2] = 1.0
    near(layer(torch.zeros(1, 1, 1))[0].view(-1), [0.23105858])


@pytest.mark.parametrize("kind", [turbo.LSTM, turbo.GRU, turbo.RNN])
def test_large_inputs_stay_finite(kind):
    """Row 24."""
    torch.manual_seed(2)
    layer = kind(3, 5)
    x = (1e4 * torch.randn(8, 2, 3)).requires_grad_()
    theirs = getattr(torch.nn, kind.__name__)(3, 5)
    theirs.load_state_dict(layer.state_dict())
    y = layer(x)[0]
    near(y, theirs(x)[0].detach())
    y.sum().backward()
    assert torch.isfinite(x.grad).all()


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_cell_counts_to_3000(precision):
    """Row 42: a cell carried in 16 bits sticks at 256 or 2048."""
    layer = turbo.LSTM(1, 2, precision=precision)
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            parameter.fill_(50.0 if "bias" in name else 0.0)
        _, (_, c) = layer(torch.zeros(3000, 1, 1))
    assert c.view(-1).tolist() == [3000.0, 3000.0]


def test_certain_dropout_is_finite_and_masks_change():
    """Rows 14, 15."""
    torch.manual_seed(3)
    layer = turbo.LSTM(3, 4, num_layers=2, dropout=1.0)
    x = torch.randn(5, 2, 3, requires_grad=True)
    y = layer(x)[0]
    y.sum().backward()
    assert torch.isfinite(y).all() and not x.grad.any()
    layer = turbo.LSTM(3, 4, num_layers=2, dropout=0.5)
    first, second = layer(x)[0], layer(x)[0]
    assert not torch.equal(first, second)
    torch.manual_seed(4)
    first = layer(x)[0]
    torch.manual_seed(4)
    assert torch.equal(first, layer(x)[0])


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32, torch.int64])
def test_lengths_of_any_integers(dtype):
    """Rows 6, 30, 45."""
    layer = turbo.GRU(3, 4)
    x = torch.randn(5, 2, 3)
    assert torch.equal(layer(x, lengths=torch.tensor([5, 3], dtype=dtype))[0], layer(x, lengths=[5, 3])[0])


def test_float_lengths_are_refused_by_the_exported_model(tmp_path):
    """Row 30."""
    runtime = pytest.importorskip("onnxruntime")
    turbolstm.onnx.export(turbo.GRU(3, 4), tmp_path / "m.onnx")
    session = runtime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    feeds = {"x": numpy.zeros((5, 2, 3), "f"), "h_0": numpy.zeros((1, 2, 4), "f")}
    session.run(None, {**feeds, "sequence_lens": numpy.array([5, 3], numpy.int32)})
    with pytest.raises(Exception, match="sequence_lens|int32"):
        session.run(None, {**feeds, "sequence_lens": numpy.array([5.0, 3.0], numpy.float32)})


def test_parameters_keep_their_shapes():
    """Row 47."""
    layer = turbo.LSTM(3, 4, num_layers=2, bidirectional=True, proj_size=2)
    before = {name: value.shape for name, value in layer.state_dict().items()}
    layer(torch.randn(4, 2, 3))[0].sum().backward()
    assert before == {name: value.shape for name, value in layer.state_dict().items()}
    assert before == {name: value.shape for name, value in torch.nn.LSTM(3, 4, 2, bidirectional=True, proj_size=2).state_dict().items()}


@pytest.mark.parametrize("name", ["gru", "gru_original"])
def test_conversions_of_gru_agree_to_1e_6(tmp_path, name):
    """Row 60: gate order, reset before or after, two biases; ours to ONNX, to ONNX Runtime, and back."""
    runtime = pytest.importorskip("onnxruntime")
    torch.manual_seed(5)
    layer = turbo.Recurrent(name, 3, 4)
    turbolstm.onnx.export(layer, tmp_path / "m.onnx")
    x = torch.randn(6, 2, 3)
    session = runtime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    feeds = {"x": x.numpy(), "h_0": numpy.zeros((1, 2, 4), "f"), "sequence_lens": numpy.full(2, 6, numpy.int32)}
    numpy.testing.assert_allclose(session.run(["y"], feeds)[0], layer(x)[0].detach(), atol=1e-6)
    (back,) = turbolstm.onnx.load(tmp_path / "m.onnx")
    assert torch.equal(back.module()(x)[0], layer(x)[0])
