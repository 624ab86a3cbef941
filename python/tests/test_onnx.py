"""Models to and from ONNX, run by ONNX Runtime."""

import numpy
import pytest

import turbolstm
import turbolstm.onnx

torch = pytest.importorskip("torch")
runtime = pytest.importorskip("onnxruntime")
import turbolstm.torch as ours  # noqa: E402

TOLERANCE = 1e-5


def run(path, feeds):
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, feeds)))


def near(one, other):
    numpy.testing.assert_allclose(one, other, rtol=TOLERANCE, atol=TOLERANCE)


def check(layer, path, steps=7, batch=4, lengths=None, seed=1):
    """The exported layer gives what ours gives, with initial states and lengths."""
    turbolstm.onnx.export(layer, path)
    generator = torch.Generator().manual_seed(seed)
    lengths = [steps] * batch if lengths is None else lengths
    axes = (batch, steps) if layer.batch_first else (steps, batch)
    x = torch.randn(*axes, layer.input_size, generator=generator)
    options, _ = turbolstm.onnx._describe(layer)
    infos = {}  # by state: its layers and directions
    for info in turbolstm.Network(**options).states:
        infos.setdefault(info.state, []).append(info)
    states = [torch.rand(len(parts), batch, parts[0].size, generator=generator) for parts in infos.values()]
    with torch.no_grad():
        y, finals = layer.eval()(x, states[0] if len(states) == 1 else tuple(states), lengths=lengths)
    finals = finals if isinstance(finals, tuple) else (finals,)
    feeds = {"x": x.numpy(), "sequence_lens": numpy.array(lengths, numpy.int32)}
    feeds.update({f"{name}_0": state.numpy() for name, state in zip(infos, states)})
    results = run(path, feeds)
    near(results["y"], y)
    for name, final in zip(infos, finals):
        near(results[f"{name}_n"], final)


def randomised(layer):
    """With parameters that are all different, so that no order of them goes unnoticed."""
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(torch.empty_like(parameter).uniform_(-0.4, 0.4))
    return layer


@pytest.mark.parametrize("kind", [ours.LSTM, ours.GRU, ours.RNN])
@pytest.mark.parametrize(
    "layers, both, batch_first", [(1, False, False), (2, True, False), (2, False, True), (1, True, True)]
)
def test_drop_ins_run_equal(tmp_path, kind, layers, both, batch_first):
    layer = randomised(kind(5, 6, num_layers=layers, bidirectional=both, batch_first=batch_first))
    check(layer, tmp_path / "m.onnx", lengths=[7, 1, 3, 6])


def test_batch_and_time_are_free_in_one_file(tmp_path):
    """A file once exported with one batch baked in (pytorch#62568, torch-mlir#4741)."""
    layer = randomised(ours.LSTM(3, 4, num_layers=2))
    for batch in (1, 4):
        for steps in (1, 9):
            check(layer, tmp_path / "m.onnx", steps, batch, seed=steps)
    import onnx

    model = onnx.load(tmp_path / "m.onnx")
    onnx.checker.check_model(model, full_check=True)
    for value in [*model.graph.input, *model.graph.output]:
        names = [axis.dim_param for axis in value.type.tensor_type.shape.dim]
        assert "B" in names, value.name
    assert {value.name for value in model.graph.input} == {"x", "sequence_lens", "h_0", "c_0"}


OPTIONS = [
    dict(cell="lstm", clip=0.4), dict(cell="lstm", coupled_gates=True), dict(cell="lstm", bias=False),
    dict(cell="peephole_lstm"), dict(cell="peephole_lstm", bidirectional=True, num_layers=2), dict(cell="gru_original"),
    dict(cell="gru", clip=0.3), dict(cell="gru", reversed=[True, False], num_layers=2), dict(cell="rnn_relu"),
    dict(cell="lstm", residual=True, num_layers=3, input_size=6), dict(cell="lstm", zoneout=0.3),
    dict(cell="lstm_projection", proj_size=2), dict(cell="lstm_projection", proj_size=3, bidirectional=True, num_layers=2),
    dict(cell="layer_norm_lstm", num_layers=2), dict(cell="mgu", bidirectional=True), dict(cell="indrnn"), dict(cell="trnn"),
    dict(cell="tau_gru", delay=3), dict(cell="tau_gru", bidirectional=True), dict(cell="scrn"), dict(cell="slstm", heads=2),
]  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(map(str, options.values())))
def test_all_cells_run_equal(tmp_path, options):
    sizes = dict(input_size=5, hidden_size=6)
    layer = randomised(ours.Recurrent(**{**sizes, **options}))
    check(layer, tmp_path / "m.onnx", lengths=[7, 1, 3, 6])


def test_every_cell_is_among_these():
    assert {cell.name for cell in turbolstm.cells()} <= {options["cell"] for options in OPTIONS} | {"rnn_tanh"}


@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
def test_layers_of_pytorch_are_exported_too(tmp_path, kind):
    theirs = kind(3, 4, num_layers=2, bidirectional=True)
    turbolstm.onnx.export(theirs, tmp_path / "m.onnx")
    x = torch.randn(5, 2, 3)
    zeros = {"h_0": numpy.zeros((4, 2, 4), numpy.float32)}
    if kind is torch.nn.LSTM:
        zeros["c_0"] = zeros["h_0"]
    feeds = {"x": x.numpy(), "sequence_lens": numpy.array([5, 5], numpy.int32), **zeros}
    near(run(tmp_path / "m.onnx", feeds)["y"], theirs(x)[0].detach())


@pytest.mark.parametrize("options", [options for options in OPTIONS if options["cell"] in
                                     ("lstm", "peephole_lstm", "gru", "gru_original", "rnn_relu") and "zoneout" not in options
                                     and options.get("num_layers", 1) == 1 and options != dict(cell="lstm", clip=0.4)], ids=str)  # fmt: skip
def test_import_gives_back_what_was_exported(tmp_path, options):
    layer = randomised(ours.Recurrent(**{**dict(input_size=5, hidden_size=6), **options}))
    turbolstm.onnx.export(layer, tmp_path / "m.onnx")
    (back,) = turbolstm.onnx.load(tmp_path / "m.onnx")
    module = back.module()
    assert module._settings()._replace(clip=None) == layer._settings()._replace(clip=None)
    assert module._settings().clip == pytest.approx(layer._settings().clip)
    for name, value in layer.state_dict().items():
        assert torch.equal(value, module.state_dict()[name]), name
    assert [info.name for info in back.network().parameters] == list(layer.state_dict())


def node_model(op, activations=None, **attributes):
    """A model of one node, H = 3, as the onnx package makes it."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
    if activations:
        attributes["activations"] = activations
    both = attributes.get("direction") == "bidirectional"
    constants = [numpy_helper.from_array(numpy.full((1 + both, gates * 3, n), 0.1, numpy.float32), name)
                 for name, n in (("W", 2), ("R", 3))]  # fmt: skip
    node = helper.make_node(op, ["X", "W", "R"], ["Y"], name="node", hidden_size=3, **attributes)
    x = helper.make_tensor_value_info("X", TensorProto.FLOAT, ["T", "B", 2])
    y = helper.make_tensor_value_info("Y", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "g", [x], [y], constants)
    return onnx.save_model, helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)])


@pytest.mark.parametrize("op, attributes", [
    ("LSTM", {}), ("LSTM", dict(direction="reverse")), ("LSTM", dict(direction="bidirectional")), ("LSTM", dict(clip=0.2)),
    ("LSTM", dict(input_forget=1)), ("GRU", {}), ("GRU", dict(linear_before_reset=1)), ("GRU", dict(direction="reverse")),
    ("RNN", {}), ("RNN", dict(activations=["Relu"])),
])  # fmt: skip
def test_imported_nodes_run_as_in_the_runtime(tmp_path, op, attributes):
    save, model = node_model(op, **attributes)
    save(model, tmp_path / "m.onnx")
    (layer,) = turbolstm.onnx.load(tmp_path / "m.onnx")
    x = numpy.random.default_rng(1).standard_normal((5, 4, 2)).astype(numpy.float32)
    y = layer.module()(torch.from_numpy(x))[0].detach().numpy()
    theirs = run(tmp_path / "m.onnx", {"X": x})["Y"]  # [T, D, B, H]
    near(y, theirs.transpose(0, 2, 1, 3).reshape(y.shape))


def test_layout_of_batches_first_is_its_transpose(tmp_path):
    """ONNX Runtime refuses layout 1, others ignored it (openvino#37820)."""
    x = torch.randn(2, 5, 2)
    results = []
    for layout in (0, 1):
        save, model = node_model("LSTM", layout=layout)
        save(model, tmp_path / "m.onnx")
        (layer,) = turbolstm.onnx.load(tmp_path / "m.onnx")
        assert layer.batch_first == (layout == 1)
        results.append(layer.module()(x if layout else x.transpose(0, 1))[0])
    assert torch.equal(results[0].transpose(0, 1), results[1])


@pytest.mark.parametrize("op, activations, word", [
    ("LSTM", ["HardSigmoid", "Tanh", "Tanh"], "HardSigmoid"), ("GRU", ["Sigmoid", "Relu"], "Relu"),
    ("RNN", ["Elu"], "Elu"), ("LSTM", ["Nonsense", "Tanh", "Tanh"], "Nonsense"),
])  # fmt: skip
def test_other_activations_are_refused_by_name(tmp_path, op, activations, word):
    save, model = node_model(op, activations)
    save(model, tmp_path / "m.onnx")
    with pytest.raises(turbolstm.Error, match=f"node.*{word}"):
        turbolstm.onnx.load(tmp_path / "m.onnx")


def test_hostile_files_are_refused(tmp_path):
    save, model = node_model("LSTM")
    whole = model.SerializeToString()
    broken = {"empty": b"", "text": b"no model", "half": whole[: len(whole) // 2]}
    model.graph.initializer[0].dims[2] = 2**40
    broken["shape"] = model.SerializeToString()
    for name, content in broken.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(turbolstm.Error, match=name):
            turbolstm.onnx.load(tmp_path / name)
    with pytest.raises(turbolstm.Error, match="absent.onnx"):
        turbolstm.onnx.load(tmp_path / "absent.onnx")


def test_flipped_bytes_never_crash(tmp_path):
    """Either an error of ours or layers."""
    turbolstm.onnx.export(ours.LSTM(3, 4, bidirectional=True), tmp_path / "m.onnx")
    whole = (tmp_path / "m.onnx").read_bytes()
    draw = numpy.random.default_rng(4)
    for _ in range(200):
        broken = bytearray(whole)
        for place in draw.integers(0, len(whole), draw.integers(1, 5)):
            broken[place] = draw.integers(0, 256)
        (tmp_path / "b.onnx").write_bytes(broken)
        try:
            turbolstm.onnx.load(tmp_path / "b.onnx")
        except turbolstm.Error:
            pass


def test_what_cannot_be_exported_is_named(tmp_path):
    with pytest.raises(TypeError, match="Linear.*wants"):
        turbolstm.onnx.export(torch.nn.Linear(2, 3), tmp_path / "m.onnx")
    with pytest.raises(turbolstm.Error, match="nowhere"):
        turbolstm.onnx.export(tmp_path / "nowhere", tmp_path / "m.onnx")
    assert not (tmp_path / "m.onnx").exists()
