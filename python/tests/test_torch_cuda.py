"""turbolstm.torch on an NVIDIA GPU: against torch.nn on the same GPU, and against the same layers on the CPU."""

import copy
import random

import pytest
from reference import assert_close

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import turbolstm
import turbolstm.torch as turbo
from torch.nn.utils.rnn import pack_padded_sequence


def why_not():
    if not torch.cuda.is_available():
        return "PyTorch finds no GPU"
    if not any(device.kind == "cuda" for device in turbolstm.devices()):
        return "turbolstm finds no GPU, or was built without CUDA"
    return None


pytestmark = pytest.mark.skipif(why_not() is not None, reason=f"needs an NVIDIA GPU: {why_not()}")

KINDS = {
    "lstm": (torch.nn.LSTM, turbo.LSTM, {}),
    "gru": (torch.nn.GRU, turbo.GRU, {}),
    "rnn_tanh": (torch.nn.RNN, turbo.RNN, {}),
    "rnn_relu": (torch.nn.RNN, turbo.RNN, {"nonlinearity": "relu"}),
}
# By precision of products: relative to the largest magnitude of a tensor, at least 1, after some tens of steps.
TOLERANCES = {"fp32": 5e-5, "bf16x6": 5e-5, "tf32": 1e-2, "fp16": 1e-2, "bf16": 6e-2}
HALVES = {"fp16": torch.float16, "bf16": torch.bfloat16}


@pytest.fixture(autouse=True)
def exact():
    """PyTorch's own layers do not round."""
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    torch.manual_seed(0)
    yield
    torch.backends.cudnn.allow_tf32 = before


def assert_same(got, wanted, what="", tolerance=TOLERANCES["fp32"]):
    assert_close(got.detach().float().cpu().numpy(), wanted.detach().float().cpu().numpy(), what, tolerance)


def both(kind, *args, **kwargs):
    """PyTorch's layer and ours with the same parameters, on the GPU."""
    theirs, ours, extra = KINDS[kind]
    precision = kwargs.pop("precision", "auto")
    theirs = theirs(*args, **kwargs, **extra)
    ours = ours(*args, **kwargs, **extra, precision=precision)
    ours.load_state_dict(theirs.state_dict())
    return theirs.cuda(), ours.cuda()


def tensors_of(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, torch.nn.utils.rnn.PackedSequence):
        return [value.data]
    return [tensor for part in value for tensor in tensors_of(part)]


def states_of(module, batch):
    directions = module.num_layers * (2 if module.bidirectional else 1)
    shapes = [(directions, batch, module.proj_size or module.hidden_size)]
    if isinstance(module, torch.nn.LSTM):
        shapes.append((directions, batch, module.hidden_size))
    return [torch.randn(shape) for shape in shapes]


def results_of(module, x, hx=None, used=None, pack=None, **options):
    """Outputs, then gradients by x, states and parameters of a sum over the outputs with random weights."""
    module.zero_grad()
    parameter = next(module.parameters())
    to = {"device": parameter.device, "dtype": parameter.dtype}
    x = x.detach().clone().to(**to).requires_grad_()
    hx = [state.detach().clone().to(**to).requires_grad_() for state in hx or []]
    states = None if not hx else hx[0] if len(hx) == 1 else tuple(hx)
    tensors = tensors_of(module(x if pack is None else pack(x), states, **options))
    generator = torch.Generator().manual_seed(1)
    weights = [torch.randn(tensor.shape, generator=generator).to(tensor) for tensor in tensors]
    terms = [(tensor * weight).sum() for tensor, weight in zip(tensors, weights)]
    sum(term for i, term in enumerate(terms) if used is None or i in used).backward()
    named = {f"output {i}": tensor for i, tensor in enumerate(tensors)}
    named["d.x"] = x.grad
    named.update({f"d.state {i}": state.grad for i, state in enumerate(hx)})
    named.update({f"d.{name}": parameter.grad for name, parameter in module.named_parameters()})
    return named


def compare(wanted, got, tolerance=TOLERANCES["fp32"]):
    assert got.keys() == wanted.keys()
    for name, tensor in wanted.items():
        if tensor is None:
            tensor = torch.zeros_like(got[name])
        assert_same(got[name], tensor, name, tolerance)


@pytest.mark.parametrize("precision", TOLERANCES)
@pytest.mark.parametrize("seed", range(12))
def test_parity(seed, precision):
    dice = random.Random(seed)
    kind = list(KINDS)[seed % 4]
    hidden = dice.choice([5, 16, 17, 64])
    options = {
        "num_layers": dice.choice([1, 1, 2]),
        "bias": dice.random() < 0.8,
        "batch_first": dice.random() < 0.5,
        "bidirectional": dice.random() < 0.5,
    }
    if kind == "lstm" and dice.random() < 0.4:
        options["proj_size"] = dice.randint(1, hidden - 1)
    theirs, ours = both(kind, dice.choice([1, 5, 17, 32]), hidden, **options, precision=precision)
    steps, batch = dice.choice([1, 2, 17, 40]), dice.choice([1, 3, 17])
    hx = states_of(theirs, batch) if dice.random() < 0.6 else None
    shape = (batch, steps) if options["batch_first"] else (steps, batch)
    x = torch.randn(*shape, theirs.input_size)
    pack, form = None, dice.choice(["padded", "padded", "packed"])
    if form == "packed":
        lengths = torch.tensor([dice.randint(1, steps) for _ in range(batch)])
        pack = lambda value: pack_padded_sequence(value, lengths, options["batch_first"], enforce_sorted=False)
    used = dice.choice([None, {0}, {1}])
    wanted = results_of(theirs, x, hx, used, pack)
    if precision in HALVES:
        ours = ours.to(HALVES[precision])
    for _ in range(2):  # the second call knows which outputs are used
        got = results_of(ours, x, hx, used, pack)
        steep = 4 if kind == "rnn_relu" else 1  # a rounded sum may fall on the other side of zero
        compare(wanted, got, steep * TOLERANCES[precision])
    if precision in HALVES:
        assert all(tensor is None or tensor.dtype == HALVES[precision] for tensor in got.values())


@pytest.mark.parametrize("precision", ["fp32", "tf32", "bf16"])
def test_parity_at_a_size_that_is_persistent(precision):
    theirs, ours = both("lstm", 128, 256, precision=precision)
    x = torch.randn(60, 33, 128)
    wanted = results_of(theirs, x)
    compare(wanted, results_of(ours, x), TOLERANCES[precision])
    if precision == "bf16":
        compare(wanted, results_of(ours.bfloat16(), x), TOLERANCES[precision])


def test_tf32_as_pytorch_is_told():
    _, ours = both("lstm", 64, 64)
    x = torch.randn(20, 8, 64).cuda()
    exact = ours(x)[0]
    torch.backends.cudnn.allow_tf32 = True
    rounded = ours(x)[0]
    assert (rounded != exact).any()
    assert_same(rounded, exact, tolerance=TOLERANCES["tf32"])


@pytest.mark.parametrize("steps, batch", [(0, 3), (4, 0), (0, 0)])
def test_empty(steps, batch):
    ours = turbo.LSTM(3, 5, 2, bidirectional=True).cuda()
    x = torch.zeros(steps, batch, 3, device="cuda", requires_grad=True)
    h, c = (state.cuda() for state in states_of(ours, batch))
    y, (h_n, _) = ours(x, (h.requires_grad_(), c))
    assert y.shape == (steps, batch, 10) and h_n.shape == (4, batch, 5)
    (y.sum() + h_n.sum()).backward()
    assert not any(parameter.grad.any() for parameter in ours.parameters())
    if steps == 0:
        assert (h_n == h).all() and (h.grad == 1).all()


CELLS = sorted({cell.name for cell in turbolstm.cells() if not cell.projects})


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("hidden", [6, 128])
def test_every_cell_with_lengths_and_resets_as_on_the_cpu(cell, hidden):
    ours = turbo.Recurrent(cell, hidden, hidden, bidirectional=True, precision="fp32")
    with torch.no_grad():
        for parameter in ours.parameters():
            parameter.add_(torch.randn_like(parameter) / 20)
    steps, batch = 13, 5
    lengths = torch.tensor([13, 0, 7, 1, 12], dtype=torch.int32)
    reset = torch.rand(steps, batch) < 0.2
    reset[0, 0] = reset[12, 0] = True
    x = torch.randn(steps, batch, hidden) / 2
    x[torch.arange(steps)[:, None] >= lengths] = float("nan")  # nobody reads padding
    y, finals = ours(torch.zeros(1, batch, hidden))
    hx = [torch.randn_like(state) for state in tensors_of(finals)]
    for options in ({}, {"lengths": lengths}, {"reset": reset}, {"lengths": lengths, "reset": reset}):
        values = x if "lengths" in options else x.nan_to_num()
        for states in (None, hx):
            wanted = results_of(ours.cpu(), values, states, **options)
            ours.cuda()
            on_gpu = {name: tensor.cuda() for name, tensor in options.items()}
            compare(wanted, results_of(ours, values, states, **on_gpu), 2e-4)
            compare(wanted, results_of(ours, values, states, **options), 2e-4)  # lengths and masks of the host


@pytest.mark.parametrize("precision", ["tf32", "bf16"])
def test_resets_in_persistent_loops(precision):
    ours = turbo.LSTM(64, 256, precision="fp32")
    reset = torch.rand(40, 17) < 0.1
    reset[0, :3] = True
    x, hx = torch.randn(40, 17, 64), states_of(ours, 17)
    wanted = results_of(ours, x, hx, reset=reset)
    ours.precision = precision
    compare(wanted, results_of(ours.cuda(), x, hx, reset=reset.cuda()), TOLERANCES[precision])


def test_gradients_by_differences():
    ours = turbo.GRU(4, 6, 2, bidirectional=True, precision="fp32").cuda()
    x = torch.randn(7, 3, 4).cuda()
    weight = torch.randn(7, 3, 12).cuda()
    loss = lambda: (ours(x)[0].double() * weight).sum()
    loss().backward()
    for name, parameter in ours.named_parameters():
        direction = torch.randn_like(parameter)
        wanted = (parameter.grad * direction).sum().item()
        with torch.no_grad():
            parameter.add_(direction, alpha=1e-2)
            above = loss().item()
            parameter.add_(direction, alpha=-2e-2)
            below = loss().item()
            parameter.add_(direction, alpha=1e-2)
        assert (above - below) / 2e-2 == pytest.approx(wanted, rel=2e-2, abs=2e-2), name


def test_waits_for_nothing_and_heeds_the_stream():
    theirs, ours = both("lstm", 32, 32)
    values = torch.randn(10, 4, 32).cuda()
    wanted = results_of(theirs, values)
    results_of(ours, values)  # compiles
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        x = torch.zeros(10, 4, 32, device="cuda")
        options = {"lengths": torch.full((4,), 10, device="cuda"), "reset": torch.zeros(10, 4, device="cuda") > 0}
        for given in ({}, options):  # memory for this stream
            ours(x, **given)[0].sum().backward()
        ours.zero_grad()
        torch.cuda._sleep(400_000_000)
        x.copy_(values)  # behind the sleep: who does not wait for it sees zeros
        y, (h, c) = ours(x.requires_grad_())
        again, _ = ours(x, **options)
        (y.sum() + h.sum()).backward()
        assert not stream.query(), "a pass waited for the device"
    stream.synchronize()
    assert_same(y, wanted["output 0"])
    assert_same(again, wanted["output 0"])


def test_two_streams_at_once():
    _, ours = both("lstm", 64, 256)
    inputs = [torch.randn(50, 8, 64).cuda() for _ in range(2)]
    wanted = [results_of(ours, x) for x in inputs]
    streams = [torch.cuda.Stream() for _ in inputs]
    torch.cuda.synchronize()
    for _ in range(3):
        outputs = []
        for x, stream in zip(inputs, streams):
            with torch.cuda.stream(stream):
                outputs.append(ours(x)[0])
        torch.cuda.synchronize()
        for output, result in zip(outputs, wanted):
            assert (output == result["output 0"]).all()


def test_several_calls_before_one_backward_pass():
    theirs, ours = both("lstm", 5, 5)
    start = torch.randn(3, 2, 5).cuda()
    for module in (theirs, ours):
        x, states, total = start, None, 0
        for _ in range(5):  # of other shapes, and fed by the one before
            x = torch.cat([x, x[:1]])
            x, states = module(x, states)
            total = total + x.square().sum()
        total.backward()
    for wanted, got in zip(theirs.parameters(), ours.parameters()):
        assert_same(got.grad, wanted.grad)


def test_backward_twice_and_accumulated():
    ours = turbo.LSTM(3, 5, 2, dropout=0.5).cuda()
    y, _ = ours(torch.randn(4, 2, 3).cuda())
    y.sum().backward(retain_graph=True)
    once = [parameter.grad.clone() for parameter in ours.parameters()]
    y.sum().backward()  # with the same masks
    for parameter, gradient in zip(ours.parameters(), once):
        assert_same(parameter.grad, 2 * gradient)


def test_what_is_changed_before_the_backward_pass():
    ours = turbo.LSTM(3, 5).cuda()
    y, _ = ours(torch.randn(4, 2, 3).cuda())
    with torch.no_grad():
        ours.weight_hh_l0.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    y, _ = ours(torch.randn(4, 2, 3).cuda())
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.mul_(2).sum().backward()


def test_double_backward_is_refused():
    ours = turbo.GRU(3, 5).cuda()
    x = torch.randn(4, 2, 3).cuda().requires_grad_()
    (gradient,) = torch.autograd.grad(ours(x)[0].square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="double backward is not supported"):
        gradient.square().sum().backward()


def test_masks():
    ours = turbo.LSTM(8, 16, 2, dropout=0.5, recurrent_dropout=0.2, zoneout=0.1).cuda()
    x = torch.randn(5, 4, 8).cuda()
    torch.manual_seed(3)
    first, second = ours(x)[0], ours(x)[0]
    torch.manual_seed(3)
    assert (ours(x)[0] == first).all() and (first != second).any()
    on_cpu = copy.deepcopy(ours).cpu().eval()
    ours.eval()
    assert_same(ours(x)[0], on_cpu(x.cpu())[0])


def test_there_and_back():
    ours = turbo.LSTM(3, 5, 2)
    x = torch.randn(4, 2, 3)
    before = ours(x)[0]
    other = copy.deepcopy(ours).to("cuda")
    assert_same(other(x.cuda())[0], before)
    assert_same(copy.deepcopy(other)(x.cuda())[0], before)
    other.load_state_dict(ours.state_dict())
    assert_same(other.cpu()(x)[0], before)
    assert_same(other.cuda().half()(x.cuda().half())[0], before, tolerance=TOLERANCES["fp16"])
    model = torch.nn.Sequential(torch.nn.LSTM(3, 5, 2)).cuda()
    model[0].load_state_dict(ours.state_dict())
    assert_same(turbo.replace(model)(x.cuda())[0], before)
    assert type(model[0]) is turbo.LSTM


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast(dtype):
    theirs, ours = both("lstm", 32, 64, 2)
    x = torch.randn(20, 8, 32)
    wanted = results_of(theirs, x)
    with torch.autocast("cuda", dtype):
        y, (h, _) = ours(x.cuda())
        assert y.dtype == h.dtype == dtype
        got = results_of(ours, x)
    tolerance = TOLERANCES["bf16" if dtype == torch.bfloat16 else "fp16"]
    compare(wanted, got, tolerance)
    assert got["d.x"].dtype == torch.float32


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("hidden", [32, 256])
def test_a_recorded_step(dtype, hidden):
    _, ours = both("lstm", 16, hidden)
    ours = ours.to(dtype)
    x = torch.randn(12, 4, 16).to("cuda", dtype)
    reset = torch.zeros(12, 4, dtype=torch.bool, device="cuda")
    states = tuple(state.to("cuda", dtype) for state in states_of(ours, 4))

    def step():
        ours.zero_grad(set_to_none=False)
        y, (h, _) = ours(x, states, reset=reset)
        y.square().sum().backward()
        return y, h

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(2):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y, h = step()
    for seed in range(3):
        torch.manual_seed(seed)
        x.copy_(torch.randn(12, 4, 16))
        reset.copy_(torch.rand(12, 4) < 0.3)
        graph.replay()
        recorded = [y.clone(), h.clone(), *(parameter.grad.clone() for parameter in ours.parameters())]
        wanted = [*step(), *(parameter.grad for parameter in ours.parameters())]
        for got, want in zip(recorded, wanted):
            assert (got == want).all()
    with torch.no_grad():
        with pytest.raises(RuntimeError, match="cannot be part of a CUDA graph"):
            with torch.cuda.graph(torch.cuda.CUDAGraph()):
                ours(x, lengths=[1, 2, 3, 4])


def test_memory_is_pytorchs_and_comes_back():
    ours = turbo.LSTM(64, 128).cuda()
    x = torch.randn(100, 16, 64).cuda()
    for _ in range(2):
        ours(x)[0].sum().backward()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    y = ours(x)[0]
    assert torch.cuda.memory_allocated() > before + y.numel() * 4
    y.sum().backward()
    del y
    assert torch.cuda.memory_allocated() == before
    with torch.no_grad():
        torch.cuda.reset_peak_memory_stats()
        ours(x)
        inference = torch.cuda.max_memory_allocated() - before
        torch.cuda.reset_peak_memory_stats()
    ours(x)
    assert inference <= torch.cuda.max_memory_allocated() - before


def test_inputs_that_lie_otherwise():
    _, ours = both("lstm", 17, 24)
    x = torch.randn(9, 5, 17).cuda()
    wanted = ours(x)[0]
    padded = torch.zeros(9 * 5 * 17 + 1, device="cuda")
    odd = padded[1:].view(9, 5, 17)  # not at a multiple of 16 bytes
    odd.copy_(x)
    assert (ours(odd)[0] == wanted).all()
    assert (ours(x.transpose(0, 1).contiguous().transpose(0, 1))[0] == wanted).all()


def test_errors():
    ours = turbo.LSTM(3, 5).cuda()
    x = torch.zeros(4, 2, 3, device="cuda")
    state = torch.zeros(1, 2, 5, device="cuda")
    wrong = [
        (lambda: ours(x.cpu()), ValueError, "weight_ih_l0 is torch.float32 .* on cuda:0, wants .* on cpu"),
        (lambda: ours(x.double()), ValueError, "input is torch.float64"),
        (lambda: ours(x.half()), ValueError, "weight_ih_l0 is torch.float32 .* wants torch.float16"),
        (lambda: ours(x, (state, state.cpu())), ValueError, "initial state c is on cpu, wants cuda:0"),
        (lambda: ours(x, (state, state.half())), ValueError, "initial state c is torch.float16, wants torch.float32"),
        (lambda: ours(x, (state, state[:, :1])), ValueError, "initial state c has the shape"),
        (lambda: ours(x, lengths=[1, 5]), ValueError, r"lengths\[1\] is 5, wants 0 to 4"),
        (lambda: ours(x, lengths=[1, 2, 3]), ValueError, "got 3 lengths"),
        (lambda: ours(x, reset=torch.zeros(4, 3, dtype=torch.bool)), ValueError, "reset mask has the shape"),
        (lambda: turbo.LSTM(3, 5, precision="tf32")(x.cpu()), ValueError, "tf32 needs a GPU"),
        (lambda: turbo.LSTM(3, 5, precision="fp8"), ValueError, "no precision 'fp8'"),
        (lambda: turbo.LSTM(3, 5, precision="fp16").cuda().bfloat16()(x.bfloat16()), ValueError, "precision='fp16'"),
    ]
    for call, kind, text in wrong:
        with pytest.raises(kind, match=text):
            call()
    assert ours(x)[0].shape == (4, 2, 5)
