"""What the layers refuse, and with which words."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import turbolstm
import turbolstm.torch as turbo

X = torch.zeros(5, 2, 3)


@pytest.mark.parametrize("options, words", [
    ({"num_layers": 0}, "num_layers is 0, wants at least 1"), ({"input_size": 0}, "input_size is 0"),
    ({"hidden_size": -1}, "hidden_size is -1"), ({"hidden_size": "a"}, "hidden_size is a str, wants an integer"),
    ({"num_layers": 1.5}, "num_layers is a float"), ({"zoneout": 2.0}, "probability is 2"),
    ({"reversed": [True, False]}, "directions of 2 layers"), ({"reversed": [True], "bidirectional": True}, "directions"),
    ({"precision": "fp8"}, "no precision 'fp8'"), ({"layer_norm": True, "peephole": True}, "layer_norm and peephole"),
])  # fmt: skip
def test_constructors_name_the_argument(options, words):
    with pytest.raises((TypeError, ValueError), match=words):
        turbo.LSTM(**{"input_size": 3, "hidden_size": 4, **options})


@pytest.mark.parametrize("call, words", [
    (lambda lstm: lstm(X, 3), "hx is a int, wants a tensor for each state: h, c"),
    (lambda lstm: lstm(X, "ab"), "hx is a str"),
    (lambda lstm: lstm(X, (None, None)), "initial state h is a NoneType"),
    (lambda lstm: lstm(X, torch.zeros(1, 2, 4)), "got 1 initial states, wants 2: h, c"),
    (lambda lstm: lstm(X, (torch.zeros(1, 2, 4), torch.zeros(1, 3, 4))), r"state c has the shape \[1, 3, 4\], wants \[1, 2, 4\]"),
    (lambda lstm: lstm([1, 2]), "input is a list"),
    (lambda lstm: lstm(X[None]), "has 4 axes, wants 3"),
    (lambda lstm: lstm(X[:, :, :2]), "has 2 features, wants input_size = 3"),
    (lambda lstm: lstm(X.double()), "input is torch.float64, wants torch.float32"),
    (lambda lstm: lstm(X.half()), "input is torch.float16, wants torch.float32 on the CPU"),
    (lambda lstm: lstm(X.long()), "input is torch.int64"),
    (lambda lstm: lstm.double()(X.double()), "float64"),
    (lambda lstm: lstm.double()(X), "parameter weight_ih_l0 is torch.float64"),
    (lambda lstm: lstm(X, lengths=[1, 6]), r"lengths\[1\] is 6, wants 0 to 5"),
    (lambda lstm: lstm(X, lengths=[-7, 1]), r"lengths\[0\] is -7, wants 0 to 5"),
    (lambda lstm: lstm(X, lengths=[2**40, 1]), f"is {2**40}"),
    (lambda lstm: lstm(X, lengths=[1, 2, 3]), "got 3 lengths, wants one for each of 2"),
    (lambda lstm: lstm(X, lengths=3), "lengths are a int"),
    (lambda lstm: lstm(X, lengths="ab"), "lengths are a str"),
    (lambda lstm: lstm(X, lengths=torch.tensor([1.0, 2.0])), "lengths are torch.float32, wants integers"),
    (lambda lstm: lstm(X, reset=torch.zeros(2, 5, dtype=torch.bool)), r"\[2, 5\].*\[5, 2\]"),
    (lambda lstm: lstm(X, reset=torch.zeros(5, 2)), "reset mask is torch.float32, wants bool"),
])  # fmt: skip
def test_calls_name_what_came_and_what_was_wanted(call, words):
    lstm = turbo.LSTM(3, 4)
    with pytest.raises((TypeError, ValueError), match=words):
        call(lstm)
    assert lstm.float()(X)[0].shape == (5, 2, 4)  # still usable


@pytest.mark.parametrize("inside", [False, True])
def test_torch_jit_is_refused_in_plain_words(inside):
    layer = turbo.GRU(3, 4)
    model = torch.nn.Sequential(layer) if inside else layer
    with pytest.raises(RuntimeError, match="torch.jit.script cannot"):
        torch.jit.script(model)
    with pytest.raises(RuntimeError, match="torch.jit.trace"):
        torch.jit.trace(model, X)
    assert model(X)[0].shape == (5, 2, 4)


def test_layers_go_in_directions_of_choice():
    """reversed of LSTM is what reversing its input and output by hand gives."""
    torch.manual_seed(1)
    x = torch.randn(6, 2, 3)
    layer = turbo.LSTM(3, 4, num_layers=2, reversed=[True, False])
    assert "reversed=(True, False)" in repr(layer)
    first, second = turbo.LSTM(3, 4), turbo.LSTM(4, 4)
    first.load_state_dict({name: value for name, value in layer.state_dict().items() if name.endswith("_l0")})
    second.load_state_dict(
        {name.replace("_l1", "_l0"): value for name, value in layer.state_dict().items() if name.endswith("_l1")}
    )
    by_hand = second(first(x.flip(0))[0].flip(0))[0]
    torch.testing.assert_close(layer(x)[0], by_hand, rtol=1e-5, atol=1e-6)


def test_errors_of_the_library_are_value_errors():
    assert issubclass(turbolstm.Error, ValueError)
