"""turbolstm.torch against torch.nn on a grid of options, and what only the former has."""

import copy
import io
import pickle
import random
import threading
import warnings

import pytest
from reference import DIFFERENCE_STEP, DIFFERENCE_TOLERANCE, assert_close

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import turbolstm
import turbolstm.torch as turbo
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

KINDS = {
    "lstm": (torch.nn.LSTM, turbo.LSTM, {}),
    "gru": (torch.nn.GRU, turbo.GRU, {}),
    "rnn_tanh": (torch.nn.RNN, turbo.RNN, {}),
    "rnn_relu": (torch.nn.RNN, turbo.RNN, {"nonlinearity": "relu"}),
}


def assert_same(got, wanted, what=""):
    assert_close(got.detach().numpy(), wanted.detach().numpy(), what)


def both(kind, *args, **kwargs):
    """PyTorch's layer and ours with the same parameters."""
    theirs, ours, extra = KINDS[kind]
    theirs = theirs(*args, **kwargs, **extra)
    ours = ours(*args, **kwargs, **extra)
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours


def tensors_of(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, torch.nn.utils.rnn.PackedSequence):
        return [value.data]
    return [tensor for part in value for tensor in tensors_of(part)]


def outputs_and_gradients(module, x, hx, pack=None, used=None, seed=0):
    """Outputs, then gradients by x, states and parameters of a sum over the outputs with random weights."""
    module.zero_grad()
    x = x.clone().requires_grad_()
    hx = None if hx is None else [state.clone().requires_grad_() for state in hx]
    states = None if hx is None else hx[0] if len(hx) == 1 else tuple(hx)
    output = module(x if pack is None else pack(x), states)
    tensors = tensors_of(output)
    generator = torch.Generator().manual_seed(seed)
    weights = [torch.randn(tensor.shape, generator=generator) for tensor in tensors]
    terms = [(tensor * weight).sum() for tensor, weight in zip(tensors, weights)]
    sum(term for i, term in enumerate(terms) if used is None or i in used).backward()
    named = {f"output {i}": tensor for i, tensor in enumerate(tensors)}
    named["d.x"] = x.grad
    named.update({f"d.state {i}": state.grad for i, state in enumerate(hx or [])})
    named.update({f"d.{name}": parameter.grad for name, parameter in module.named_parameters()})
    return named


def compare(theirs, ours, *args, **kwargs):
    wanted = outputs_and_gradients(theirs, *args, **kwargs)
    for _ in range(2):  # the second call reuses the first one's memory and knows which outputs are used
        got = outputs_and_gradients(ours, *args, **kwargs)
        assert got.keys() == wanted.keys()
        for name, tensor in wanted.items():
            if tensor is None:
                tensor = torch.zeros_like(got[name])
            assert_same(got[name], tensor, name)


def states_of(module, batch):
    directions = module.num_layers * (2 if module.bidirectional else 1)
    shapes = [(directions, batch, module.proj_size or module.hidden_size)]
    if isinstance(module, torch.nn.LSTM):
        shapes.append((directions, batch, module.hidden_size))
    return [torch.randn(shape) for shape in shapes]


@pytest.mark.parametrize("seed", range(60))
def test_parity(seed):
    dice = random.Random(seed)
    torch.manual_seed(seed)
    kind = list(KINDS)[seed % 4]
    inputs, hidden = dice.choice([1, 2, 5, 17]), dice.choice([2, 3, 8, 17])
    options = {
        "num_layers": dice.choice([1, 1, 2, 3]),
        "bias": dice.random() < 0.8,
        "batch_first": dice.random() < 0.5,
        "bidirectional": dice.random() < 0.5,
    }
    if kind == "lstm" and dice.random() < 0.4:
        options["proj_size"] = dice.randint(1, hidden - 1)
    theirs, ours = both(kind, inputs, hidden, **options)
    steps, batch = dice.choice([1, 2, 7, 20]), dice.choice([1, 2, 5])
    form = dice.choice(["batch", "batch", "one", "packed"])
    hx = states_of(theirs, batch) if dice.random() < 0.6 else None
    pack = None
    if form == "one":
        x = torch.randn(steps, inputs)
        hx = None if hx is None else [state[:, 0].contiguous() for state in hx]
    elif options["batch_first"]:
        x = torch.randn(batch, steps, inputs)
    else:
        x = torch.randn(steps, batch, inputs)
    if form == "packed":
        lengths = torch.tensor([dice.randint(1, steps) for _ in range(batch)])
        first = options["batch_first"]
        pack = lambda value: pack_padded_sequence(value, lengths, first, enforce_sorted=False)
    states = len(states_of(theirs, 1))
    used = dice.choice([None, {0}, set(range(1, states + 1)), {1}])
    compare(theirs, ours, x, hx, pack, used, seed)


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_parity_at_a_size_that_is_worth_threads(kind):
    torch.manual_seed(0)
    theirs, ours = both(kind, 128, 128)
    compare(theirs, ours, torch.randn(60, 32, 128) / 4, None)


def test_bits_do_not_depend_on_the_form():
    ours = turbo.LSTM(4, 6, 2)
    x = torch.randn(7, 3, 4)
    y, _ = ours(x)
    assert (ours(x[:, 1])[0] == y[:, 1]).all()
    packed, _ = ours(pack_padded_sequence(x, [7, 7, 7]))
    assert (pad_packed_sequence(packed)[0] == y).all()
    assert (ours(x, lengths=[7, 7, 7])[0] == y).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batch_first", [False, True])
def test_lengths_with_empty_sequences(kind, batch_first):
    theirs, ours = both(kind, 3, 5, 2, bidirectional=True, batch_first=batch_first)
    lengths = torch.tensor([2, 0, 6, 1])
    x = torch.randn(6, 4, 3)
    valid = torch.arange(6)[:, None] < lengths[None, :]
    x[~valid] = float("nan")  # nobody reads padding
    hx = states_of(theirs, 4)
    given = [x.transpose(0, 1) if batch_first else x, *hx]
    for tensor in given:
        tensor.requires_grad_()
    states = given[1] if len(hx) == 1 else tuple(given[1:])
    y, finals = ours(given[0], states, lengths=lengths)
    outputs = [y.transpose(0, 1) if batch_first else y, *tensors_of(finals)]
    assert not outputs[0][~valid].any()
    upstream = [torch.randn(output.shape) for output in outputs]
    gradients = torch.autograd.grad(outputs, given, upstream)
    dx = gradients[0].transpose(0, 1) if batch_first else gradients[0]
    assert not dx[~valid].any()
    for b, length in enumerate(lengths.tolist()):
        if length == 0:
            for i in range(len(hx)):
                assert (outputs[1 + i][:, b] == hx[i][:, b]).all()
                assert_same(gradients[1 + i][:, b], upstream[1 + i][:, b])
            continue
        alone = [x[:length, b].clone().requires_grad_(), *(s[:, b].detach().clone().requires_grad_() for s in hx)]
        y, finals = theirs(alone[0], alone[1] if len(hx) == 1 else tuple(alone[1:]))
        wanted = [y, *tensors_of(finals)]
        weights = [upstream[0][:length, b], *(u[:, b] for u in upstream[1:])]
        wanted_gradients = torch.autograd.grad(wanted, alone, weights)
        assert_same(outputs[0][:length, b], wanted[0])
        assert_same(dx[:length, b], wanted_gradients[0])
        for i in range(len(hx)):
            assert_same(outputs[1 + i][:, b], wanted[1 + i])
            assert_same(gradients[1 + i][:, b], wanted_gradients[1 + i])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batch_first", [False, True])
def test_reset_starts_anew_from_zeros(kind, batch_first):
    theirs, ours = both(kind, 3, 5, batch_first=batch_first)
    steps, batch = 9, 4
    reset = torch.rand(steps, batch) < 0.3
    reset[0, 0] = True
    x, hx = torch.randn(steps, batch, 3), states_of(theirs, batch)
    results = []
    for module in (theirs, ours):
        module.zero_grad()
        given = [x.clone().requires_grad_(), *(state.clone().requires_grad_() for state in hx)]
        if module is ours:
            front = given[0].transpose(0, 1) if batch_first else given[0]
            states = given[1] if len(hx) == 1 else tuple(given[1:])
            y, finals = module(front, states, reset=reset.T if batch_first else reset)
            y = y.transpose(0, 1) if batch_first else y
        else:  # step by step, as agents of reinforcement learning do it
            states, outputs = given[1:], []
            for t in range(steps):
                states = [state * (~reset[t])[None, :, None] for state in states]
                step = given[0][t][:, None] if batch_first else given[0][t][None]
                y, finals = module(step, states[0] if len(states) == 1 else tuple(states))
                outputs.append(y[:, 0] if batch_first else y[0])
                states = tensors_of(finals)
            y = torch.stack(outputs)
        (y.sin().sum() + sum(final.cos().sum() for final in tensors_of(finals))).backward()
        results.append([y, *tensors_of(finals), *(g.grad for g in given), *(p.grad for p in module.parameters())])
    for wanted, got in zip(*results):
        assert_same(got, wanted)


@pytest.mark.parametrize("steps, batch", [(0, 3), (4, 0), (0, 0)])
def test_empty(steps, batch):
    ours = turbo.LSTM(3, 5, 2, bidirectional=True)
    x = torch.zeros(steps, batch, 3, requires_grad=True)
    h, c = states_of(ours, batch)
    y, (h_n, _) = ours(x, (h.requires_grad_(), c))
    assert y.shape == (steps, batch, 10) and h_n.shape == (4, batch, 5)
    (y.sum() + h_n.sum()).backward()
    assert not any(parameter.grad.any() for parameter in ours.parameters())
    if steps == 0:
        assert (h_n == h).all() and (h.grad == 1).all()


def test_none_is_zeros():
    for kind in KINDS:
        _, ours = both(kind, 3, 5, 2)
        x = torch.randn(4, 2, 3)
        zeros = [torch.zeros_like(state) for state in states_of(ours, 2)]
        assert (ours(x)[0] == ours(x, zeros[0] if len(zeros) == 1 else tuple(zeros))[0]).all()


@pytest.mark.parametrize("kind", KINDS)
def test_state_dict_both_ways(kind):
    torch.manual_seed(0)
    theirs, ours, extra = KINDS[kind]
    theirs = theirs(3, 5, 2, bidirectional=True, **extra)
    ours = ours(3, 5, 2, bidirectional=True, **extra)
    assert [(n, p.shape) for n, p in ours.named_parameters()] == [(n, p.shape) for n, p in theirs.named_parameters()]
    before = {name: value.clone() for name, value in ours.state_dict().items()}
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(4, 2, 3)
    assert_same(ours(x)[0], theirs(x)[0])
    ours(x)[0].sum().backward()
    assert all((ours.state_dict()[name] == value).all() for name, value in before.items())
    bound = ours.hidden_size**-0.5
    assert all(p.abs().max() <= bound and p.std() > bound / 4 for p in ours.parameters())


def test_copies_and_files():
    ours = turbo.LSTM(3, 5, zoneout=0.1)
    x = torch.randn(4, 2, 3)
    ours(x)[0].sum().backward()
    ours.eval()
    y, _ = ours(x)
    file = io.BytesIO()
    torch.save(ours, file)
    file.seek(0)
    for other in (copy.deepcopy(ours), pickle.loads(pickle.dumps(ours)), torch.load(file, weights_only=False)):
        assert (other(x)[0] == y).all() and other.zoneout == 0.1
        with torch.no_grad():
            other.weight_hh_l0.zero_()
        assert (other(x)[0] != y).any() and (ours(x)[0] == y).all()


def test_changed_parameters_are_seen():
    theirs, ours = both("gru", 3, 5)
    x = torch.randn(4, 2, 3)
    for change in (
        lambda m: m.weight_hh_l0.data.mul_(2),  # leaves no trace in PyTorch's version counters
        lambda m: setattr(m.weight_ih_l0, "data", m.weight_ih_l0.data * 3),
        lambda m: torch.nn.utils.vector_to_parameters(torch.nn.utils.parameters_to_vector(m.parameters()) / 2,
                                                      m.parameters()),
    ):  # fmt: skip
        change(theirs), change(ours)
        with torch.no_grad():
            assert_same(ours(x)[0], theirs(x)[0])
        assert_same(ours(x)[0], theirs(x)[0])


def test_training_as_theirs():
    torch.manual_seed(2)
    theirs, ours = both("lstm", 3, 5, 2)
    x, wanted = torch.randn(20, 4, 3), torch.randn(20, 4, 5)
    losses = []
    for module in (theirs, ours):
        optimizer = torch.optim.Adam(module.parameters(), 1e-2)
        for _ in range(30):
            optimizer.zero_grad()
            loss = (module(x)[0] - wanted).square().mean()
            loss.backward()
            optimizer.step()
        losses.append(loss.item())
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)


def test_frozen_parameters_and_no_grad():
    theirs, ours = both("lstm", 3, 5, 2)
    for module in (theirs, ours):
        module.weight_hh_l0.requires_grad_(False)
        module.bias_ih_l1.requires_grad_(False)
    x = torch.randn(4, 2, 3)
    for module in (theirs, ours):
        module(x)[0].sum().backward()
    for (name, wanted), got in zip(theirs.named_parameters(), ours.parameters()):
        assert (got.grad is None) == (wanted.grad is None), name
        if got.grad is not None:
            assert_same(got.grad, wanted.grad, name)
    with torch.no_grad():
        assert ours(x)[0].grad_fn is None
    with torch.inference_mode():
        assert_same(ours(x)[0], theirs(x)[0])
    for parameter in ours.parameters():
        parameter.requires_grad_(False)
    assert not ours(x)[0].requires_grad
    x.requires_grad_()
    ours(x)[0].sum().backward()
    theirs_x = x.detach().clone().requires_grad_()
    theirs(theirs_x)[0].sum().backward()
    assert_same(x.grad, theirs_x.grad)


def test_several_calls_before_one_backward_pass():
    theirs, ours = both("lstm", 5, 5)
    for module in (theirs, ours):
        module.zero_grad()
        torch.manual_seed(4)
        x, states, total = torch.randn(3, 2, 5), None, 0
        for _ in range(5):  # of other shapes, and fed by the one before
            x = torch.cat([x, x[:1]])
            x, states = module(x, states)
            total = total + x.square().sum()
        total.backward()
    for wanted, got in zip(theirs.parameters(), ours.parameters()):
        assert_same(got.grad, wanted.grad)


def test_backward_twice_and_accumulated():
    torch.manual_seed(1)
    ours = turbo.LSTM(3, 5, 2, dropout=0.5)
    x = torch.randn(4, 2, 3)
    y, _ = ours(x)
    y.sum().backward(retain_graph=True)
    once = [parameter.grad.clone() for parameter in ours.parameters()]
    y.sum().backward()  # with the same masks
    for parameter, gradient in zip(ours.parameters(), once):
        assert_same(parameter.grad, 2 * gradient)


def test_parameters_changed_between_the_passes():
    ours = turbo.LSTM(3, 5)
    y, _ = ours(torch.randn(4, 2, 3))
    with torch.no_grad():
        ours.weight_hh_l0.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_double_backward_is_refused():
    ours = turbo.GRU(3, 5)
    x = torch.randn(4, 2, 3, requires_grad=True)
    (gradient,) = torch.autograd.grad(ours(x)[0].square().sum(), x, create_graph=True)
    wanted = x.detach().clone().requires_grad_()
    theirs = torch.nn.GRU(3, 5)
    theirs.load_state_dict(ours.state_dict())
    theirs(wanted)[0].square().sum().backward()
    assert_same(gradient, wanted.grad)
    with pytest.raises(RuntimeError, match="double backward is not supported"):
        gradient.square().sum().backward()


def test_backward_in_evaluation():
    theirs, ours = both("lstm", 3, 5, 2, dropout=0.5)
    theirs.eval(), ours.eval()
    compare(theirs, ours, torch.randn(4, 2, 3), None)


def test_dropout_between_layers():
    torch.manual_seed(0)
    ours = turbo.LSTM(3, 8, 2, dropout=0.5)
    x = torch.randn(5, 4, 3)
    torch.manual_seed(3)
    first, second = ours(x)[0], ours(x)[0]
    torch.manual_seed(3)
    assert (ours(x)[0] == first).all() and (first != second).any()
    ours.eval()
    assert (ours(x)[0] == ours(x)[0]).all()
    everything = turbo.LSTM(3, 8, 2, dropout=1.0)
    theirs = torch.nn.LSTM(3, 8, 2, dropout=1.0)
    theirs.load_state_dict(everything.state_dict())
    assert_same(everything(x)[0], theirs(x)[0])  # the second layer sees zeros
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        turbo.LSTM(3, 8, dropout=0.5)(x)
    assert any("num_layers greater than 1" in str(warning.message) for warning in caught)


EXTRAS = [
    (turbo.LSTM, {"layer_norm": True}),
    (turbo.LSTM, {"peephole": True}),
    (turbo.LSTM, {"recurrent_dropout": 0.3}),
    (turbo.LSTM, {"zoneout": 0.3, "bidirectional": True}),
    (turbo.LSTM, {"num_layers": 2, "dropout": 0.4, "layer_norm": True}),
    (turbo.GRU, {"recurrent_dropout": 0.3, "zoneout": 0.2}),
    (turbo.RNN, {"zoneout": 0.5}),
]


def differences_agree(module, x):
    """Gradients of a sum over the outputs against central differences with the same masks."""

    def loss():
        torch.manual_seed(5)
        y, finals = module(x)
        return (y * weights[0]).sum() + sum((f * w).sum() for f, w in zip(tensors_of(finals), weights[1:]))

    y, finals = module(x)
    generator = torch.Generator().manual_seed(6)
    weights = [torch.randn(tensor.shape, generator=generator) / 4 for tensor in (y, *tensors_of(finals))]
    module.zero_grad()
    x.requires_grad_()
    x.grad = None
    loss().backward()
    dice = random.Random(7)
    for name, tensor in (("x", x), *module.named_parameters()):
        for _ in range(3):
            at = dice.randrange(tensor.numel())
            ends = []
            for sign in (1, -1):
                with torch.no_grad():
                    tensor.view(-1)[at] += sign * DIFFERENCE_STEP
                    ends.append(loss().item())
                    tensor.view(-1)[at] -= sign * DIFFERENCE_STEP
            difference = (ends[0] - ends[1]) / (2 * DIFFERENCE_STEP)
            gradient = tensor.grad.view(-1)[at].item()
            assert abs(gradient - difference) <= DIFFERENCE_TOLERANCE * max(1, abs(difference)), (name, at)


@pytest.mark.parametrize("layer, options", EXTRAS)
def test_extra_options_against_differences(layer, options):
    torch.manual_seed(8)
    differences_agree(layer(3, 6, **options), torch.randn(5, 3, 3))


def cells():
    return [(cell.name, 4 if cell.projects else 0) for cell in turbolstm.cells()]


@pytest.mark.parametrize("cell, proj_size", cells())
def test_every_cell_against_differences(cell, proj_size):
    torch.manual_seed(9)
    module = turbo.Recurrent(cell, 3, 6, 2, proj_size=proj_size, heads=2 if cell == "slstm" else 1)
    if cell in ("rnn_relu", "indrnn"):  # away from the kink
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.abs_()
        x = torch.rand(5, 3, 3)
    else:
        x = torch.randn(5, 3, 3)
    differences_agree(module, x)
    with torch.no_grad():
        module.eval()
        y, finals = module(x)
        head, states = module(x[:3])
        tail, again = module(x[3:], states)
    assert (torch.cat([head, tail]) == y).all()  # states carry everything on
    for got, wanted in zip(tensors_of(again), tensors_of(finals)):
        assert (got == wanted).all()


def test_recurrent_is_lstm():
    ours = turbo.Recurrent("lstm", 3, 5, 2, bidirectional=True, batch_first=True)
    theirs = torch.nn.LSTM(3, 5, 2, bidirectional=True, batch_first=True)
    theirs.load_state_dict(ours.state_dict())
    compare_x = torch.randn(2, 4, 3)
    assert_same(ours(compare_x)[0], theirs(compare_x)[0])
    backwards = turbo.Recurrent("lstm", 3, 5, reversed=[True])
    one_way = torch.nn.LSTM(3, 5)
    one_way.load_state_dict(backwards.state_dict())
    x = torch.randn(4, 2, 3)
    assert_same(backwards(x)[0], one_way(x.flip(0))[0].flip(0))
    assert "lstm, 3, 5, reversed=(True,)" in repr(backwards)


def test_evaluation_of_zoneout_mixes():
    ours = turbo.GRU(3, 5, zoneout=0.25)
    theirs = torch.nn.GRU(3, 5)
    theirs.load_state_dict(ours.state_dict())
    ours.eval()
    x, h = torch.randn(1, 2, 3), torch.randn(1, 2, 5)
    assert_same(ours(x, h)[0], 0.25 * h + 0.75 * theirs(x, h)[0])


def test_bf16_precision():
    theirs, _ = both("lstm", 16, 32)
    ours = turbo.LSTM(16, 32, precision="bf16")
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(10, 4, 16)
    y, _ = ours(x)
    assert y.dtype == torch.float32
    assert_close(y.detach().numpy(), theirs(x)[0].detach().numpy(), tolerance=3e-2)
    y.sum().backward()
    assert ours.weight_hh_l0.grad.dtype == torch.float32


def test_autocast_takes_bf16_inputs():
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), turbo.GRU(3, 5))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y, _ = model(torch.randn(6, 2, 4))
    assert y.dtype == torch.float32
    y.sum().backward()
    assert model[0].weight.grad is not None


def test_replace():
    torch.manual_seed(0)
    model = torch.nn.ModuleDict({
        "embedding": torch.nn.Embedding(10, 3),
        "lstm": torch.nn.LSTM(3, 5, 2, batch_first=True),
        "more": torch.nn.ModuleList([torch.nn.GRU(5, 4), torch.nn.RNN(4, 4)]),
    })  # fmt: skip

    def run(x):
        y, _ = model["lstm"](model["embedding"](x))
        for layer in model["more"]:
            y, _ = layer(y)
        return y

    tokens = torch.randint(10, (2, 6))
    calls = []
    model["lstm"].register_forward_hook(lambda *_: calls.append(1))
    parameters = [id(parameter) for parameter in model.parameters()]
    wanted = run(tokens)
    assert turbo.replace(model) is model
    assert [type(m) for m in (model["lstm"], *model["more"])] == [turbo.LSTM, turbo.GRU, turbo.RNN]
    assert [id(parameter) for parameter in model.parameters()] == parameters
    got = run(tokens)
    assert_same(got, wanted)
    assert len(calls) == 2 and isinstance(model["lstm"], torch.nn.LSTM)
    got.sum().backward()
    assert type(turbo.replace(torch.nn.LSTM(2, 3))) is turbo.LSTM
    mixed = torch.nn.ModuleList([torch.nn.LSTM(2, 3), torch.nn.GRU(2, 3).double()])
    with pytest.raises(ValueError, match="1 has torch.float64 parameters"):
        turbo.replace(mixed)
    assert type(mixed[0]) is torch.nn.LSTM  # nothing was changed


@pytest.mark.skipif(not hasattr(torch, "compile"), reason="this PyTorch has no torch.compile")
def test_compile_works_around_it():
    model = turbo.GRU(3, 5)
    x = torch.randn(4, 2, 3)
    compiled = torch.compile(lambda value: model(value * 2)[0] + 1, backend="eager")
    assert_same(compiled(x), model(x * 2)[0] + 1)


def test_threads_share_a_module():
    ours = turbo.LSTM(3, 5)
    x = torch.randn(6, 2, 3)
    wanted = ours(x)[0].detach()
    failures = []

    def work():
        for _ in range(20):
            y, _ = ours(x)
            y.sum().backward()
            if (y != wanted).any():
                failures.append(1)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def resident_kibibytes():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


def test_memory_does_not_grow():
    ours = turbo.LSTM(8, 16)
    dice = random.Random(0)
    halfway = 0
    for i in range(400):
        ours(torch.randn(dice.randint(1, 200), 4, 8))[0].sum().backward()
        if i == 200:
            halfway = resident_kibibytes()
    assert resident_kibibytes() <= halfway * 1.02 + 1024


def test_outputs_without_a_backward_pass_give_their_memory_back():
    ours = turbo.LSTM(3, 5)
    for _ in range(20):
        ours(torch.randn(4, 2, 3))
    assert sum(len(runs) for runs in ours._runs._idle.values()) <= 2


@pytest.mark.parametrize("make, message", [
    (lambda: turbo.LSTM(3, 5, layer_norm=True, peephole=True), "no LSTM with layer_norm and peephole at once"),
    (lambda: turbo.LSTM(3, 5, peephole=True, proj_size=2), "no LSTM with peephole and proj_size at once"),
    (lambda: turbo.GRU(3, 5, layer_norm=True), "GRU has no layer_norm; LSTM has"),
    (lambda: turbo.RNN(3, 5, peephole=True), "RNN has no peephole"),
    (lambda: turbo.GRU(3, 5, proj_size=2), "proj_size argument is only supported for LSTM"),
    (lambda: turbo.LSTM(3, 5, zoneout=2.0), "a probability is 2"),
    (lambda: turbo.LSTM(3, 5, precision="fp8"), "fp8"),
    (lambda: turbo.Recurrent("nope", 3, 5), "there is no cell 'nope'; there are rnn_tanh"),
    (lambda: turbo.Recurrent("gru", 3, 5, proj_size=2), "this cell projects nothing"),
])  # fmt: skip
def test_options_out_of_range(make, message):
    with pytest.raises(ValueError, match=message):
        make()


X = torch.zeros(4, 2, 3)


@pytest.mark.parametrize("call, kind, message", [
    (lambda m: m(torch.zeros(4, 2, 5)), ValueError, "the input has 5 features, wants input_size = 3"),
    (lambda m: m(torch.zeros(3)), ValueError, "the input has 1 axes, wants 3"),
    (lambda m: m([1.0]), TypeError, "the input is a list"),
    (lambda m: m(X.double()), ValueError, "the input is torch.float64, wants torch.float32"),
    (lambda m: m(X.bfloat16()), ValueError, "the input is torch.bfloat16"),
    (lambda m: m(X.to("meta")), RuntimeError, "on meta, wants torch.float32 on the CPU, or"),
    (lambda m: m(X, torch.zeros(1, 2, 5)), ValueError, "got 1 initial states, wants 2: h, c"),
    (lambda m: m(X, (torch.zeros(1, 2, 4), torch.zeros(1, 2, 5))), ValueError,
     r"the initial state h has the shape \[1, 2, 4\], wants \[1, 2, 5\]"),
    (lambda m: m(X, (torch.zeros(2, 5), torch.zeros(2, 5))), ValueError, "the initial state h has the shape"),
    (lambda m: m(X[:, 0], (torch.zeros(1, 1, 5), torch.zeros(1, 1, 5))), ValueError, "one sequence has 3 axes"),
    (lambda m: m(X, lengths=[5, 1]), ValueError, r"lengths\[0\] is 5, wants 0 to 4"),
    (lambda m: m(X, lengths=[1, -2]), ValueError, r"lengths\[1\] is -2, wants 0 to 4"),
    (lambda m: m(X, lengths=[1]), ValueError, "lengths"),
    (lambda m: m(X, lengths=[1.0, 2.0]), ValueError, "lengths are torch.float32, wants integers"),
    (lambda m: m(X, reset=torch.zeros(2, 4, dtype=torch.bool)), ValueError, "resets"),
    (lambda m: m(X, reset=torch.zeros(4, 2)), ValueError, "the reset mask is torch.float32, wants bool"),
    (lambda m: m(pack_padded_sequence(X, [4, 2]), lengths=[4, 2]), ValueError, "has lengths of its own"),
    (lambda m: m(pack_padded_sequence(X, [2, 4], enforce_sorted=False), (torch.zeros(1, 3, 5), torch.zeros(1, 2, 5))),
     ValueError, r"the initial state h has the shape \[1, 3, 5\], wants \[1, 2, 5\]"),
    (lambda m: m(pack_padded_sequence(X, [2, 4], enforce_sorted=False), (torch.zeros(5), torch.zeros(5))),
     ValueError, r"the initial state h has the shape \[5\]"),
    (lambda m: m(X.to_sparse()), ValueError, "the input has the layout torch.sparse_coo, wants a dense tensor"),
    (lambda m: m.double()(X), ValueError, "the parameter weight_ih_l0 is torch.float64"),
])  # fmt: skip
def test_calls_that_do_not_fit(call, kind, message):
    module = turbo.LSTM(3, 5)
    with pytest.raises(kind, match=message):
        call(module)
    module.float()
    module(X)[0].sum().backward()  # usable after that
