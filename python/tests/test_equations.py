"""Cells by their equations, plans and pictures."""

import json
import pickle
import subprocess
import sys

import numpy
import pytest

import turbolstm
from turbolstm.equations import Cell, concat, exp, layer_norm, maximum, minimum, relu, row_sum, sigmoid, softplus, tanh


@Cell
def my_gru(cell):
    """A GRU as torch.nn.GRU."""
    h = cell.state("h")
    p = cell.named("p", cell.from_input(3)).split(3)
    u = cell.weight("weight_hh", [3 * h.size, h.size])
    q = cell.plus_bias(u @ cell.recurrent(h), "bias_hh").split(3)
    r, z = sigmoid(p[0] + q[0]), sigmoid(p[1] + q[1])
    return cell.define(h, (1 - z) * tanh(p[2] + r * q[2]) + z * cell.past(h))


@Cell
def odd(cell):
    """Of everything a little."""
    h, c = cell.state("h"), cell.state("c", 2)
    w = cell.weight("weight_hh", [cell.hidden_size, cell.hidden_size], initial=(-0.5, 0.5))
    a = cell.from_input() + w[0 : cell.hidden_size] @ cell.recurrent(h)
    gain = cell.weight("gain", [cell.hidden_size], initial=1.0)
    cell.define(c, minimum(0.5 * cell.past(c) + relu(a[:2]) / 2, 3.0))
    b = layer_norm(a, gain, 0.0) + 1e-3 * row_sum(softplus(a)) - 0.1
    return cell.define(h, maximum(tanh(concat([b[0:2] * exp(-cell.past(c)), b[2:]])), -0.9))


def run(cell, x, parameters=None):
    network = turbolstm.Network(cell, x.shape[2], 4)
    values = {p.name: network.initial_values(p.name, seed=1) for p in network.parameters}
    use = network.run()
    use.set_shape(*x.shape[:2])
    use.bind("x", x)
    for name, value in values.items():
        use.bind(name, value)
    use.forward()
    y = numpy.empty((*x.shape[:2], 4), numpy.float32)
    use.read_into("y", y)
    return y, values


X = numpy.random.default_rng(1).standard_normal((6, 3, 5)).astype(numpy.float32)


def test_equations_give_what_the_built_in_cell_gives():
    numpy.testing.assert_allclose(run(my_gru, X)[0], run("gru", X)[0], atol=1e-6)
    assert "sigmoid" in my_gru.equations and "h = " in turbolstm.equations.equations("gru")


def test_every_function_computes_what_its_name_says():
    y, values = run(odd, X)
    w, w_ih, b_ih, gain = (values[name + "_l0"] for name in ("weight_hh", "weight_ih", "bias_ih", "gain"))
    assert gain.tolist() == [1, 1, 1, 1] and numpy.abs(w).max() <= 0.5
    h, c = numpy.zeros((3, 4)), numpy.zeros((3, 2))
    for t in range(6):
        a = X[t] @ w_ih.T + b_ih + h @ w.T
        past, c = c, numpy.minimum(0.5 * c + numpy.maximum(a[:, :2], 0) / 2, 3)
        b = (a - a.mean(1, keepdims=True)) / numpy.sqrt(a.var(1, keepdims=True) + 1e-5)
        b = b + 1e-3 * numpy.log1p(numpy.exp(a)).sum(1, keepdims=True) - 0.1
        h = numpy.maximum(numpy.tanh(numpy.concatenate([b[:, :2] * numpy.exp(-past), b[:, 2:]], 1)), -0.9)
        numpy.testing.assert_allclose(y[t], h, atol=1e-5)


def test_layers_of_them_train_and_are_exported(tmp_path):
    torch = pytest.importorskip("torch")
    runtime = pytest.importorskip("onnxruntime")
    import turbolstm.onnx
    import turbolstm.torch

    x = torch.from_numpy(X)
    gradients = []
    for cell in ("gru", my_gru):
        torch.manual_seed(1)
        layer = turbolstm.torch.Recurrent(cell, 5, 4, num_layers=2, bidirectional=True)
        layer(x)[0].square().sum().backward()
        gradients.append({name: parameter.grad for name, parameter in layer.named_parameters()})
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], gradient, rtol=1e-4, atol=1e-5)

    layer = turbolstm.torch.Recurrent(odd, 5, 4, num_layers=2, bidirectional=True)
    with torch.no_grad():
        y = layer(x)[0]
    turbolstm.onnx.export(layer, tmp_path / "m.onnx")
    session = runtime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    feeds = {"h_0": numpy.zeros((4, 3, 4), "f"), "c_0": numpy.zeros((4, 3, 2), "f")}
    feeds.update(x=X, sequence_lens=numpy.full(3, 6, numpy.int32))
    numpy.testing.assert_allclose(session.run(["y"], feeds)[0], y, atol=1e-5)


def test_wrong_equations_are_errors():
    with pytest.raises(turbolstm.Error, match="return .*int"):
        run(Cell(lambda cell: 3, "number"), X)
    with pytest.raises(RuntimeError, match="my own"):
        run(Cell(lambda cell: (_ for _ in ()).throw(RuntimeError("my own")), "thrower"), X)
    with pytest.raises(turbolstm.Error, match="matmul"):
        run(Cell(lambda cell: cell.weight("w", [3, 7]) @ cell.x, "shapes"), X)
    kept = []
    run(Cell(lambda cell: kept.append(cell) or cell.define(cell.state("h"), tanh(cell.from_input())), "keeper"), X)
    with pytest.raises(turbolstm.Error, match="outside the equations"):
        kept[0].x  # noqa: B018
    with pytest.raises(turbolstm.Error, match="no cell 'nonsense'.*my_gru"):
        run("nonsense", X)


def test_a_cell_written_again_is_another_cell():
    def twice(cell):
        return cell.define(cell.state("h"), tanh(cell.from_input()))

    first, second = Cell(twice), Cell(twice)
    assert first == "twice" and second != first and second.startswith("twice_")
    assert Cell(twice, "gru").startswith("gru_")


def test_a_cell_is_pickled_with_its_function(tmp_path):
    code = (
        "import pickle, sys, numpy; sys.path.insert(0, sys.argv[2]); cell = pickle.load(open(sys.argv[1], 'rb'));"
        "import turbolstm; print(turbolstm.Network(cell, 2, 3).parameters[0].name)"
    )
    (tmp_path / "cell.pickle").write_bytes(pickle.dumps(my_gru))
    import pathlib

    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "cell.pickle"), str(pathlib.Path(__file__).parent)],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout == "weight_ih_l0\n", done.stderr


def test_a_plan_says_what_runs_when():
    plan = turbolstm.plan("gru", 16, 24, steps=20, batch=8, num_layers=2, threads=2, schedule="wavefront")
    assert plan.streams == 2 and plan.estimate > 0 and plan.memory_bytes > 0
    assert {task.stream for task in plan.tasks} <= {0, 1} and all(task.end >= task.begin for task in plan.tasks)
    assert len(json.loads(plan.trace)["traceEvents"]) >= len(plan.tasks)
    assert plan.network_dot.startswith("digraph") and plan.tasks_dot.startswith("digraph")
    assert "tasks on 2 streams" in repr(plan) and plan.tasks[0].name in plan.schedule
    measured = turbolstm.plan(my_gru, 16, 24, steps=20, batch=8, training=False, threads=1, measure=True)
    assert max(task.end for task in measured.tasks) > 0
    with pytest.raises(turbolstm.Error, match="option 'layers'"):
        turbolstm.plan("gru", 16, 24, steps=2, batch=2, layers=3)
    with pytest.raises(turbolstm.Error, match="zigzag"):
        turbolstm.plan("gru", 16, 24, steps=2, batch=2, schedule="zigzag")


def test_pictures_are_drawn(tmp_path):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    from turbolstm import plotting

    plan = turbolstm.plan("lstm", 8, 8, steps=10, batch=4, threads=2, time_block=3)
    axes = plotting.timeline(plan)
    assert len(axes.collections) > 3
    axes.figure.savefig(tmp_path / "plan.png")
    epochs = [{"train_loss": 1.0, "held_out_loss": 1.5, "held_out_accuracy": 0.5}, {"train_loss": 0.5, "held_out_loss": 1, "held_out_accuracy": 0.7}]
    axes = plotting.learning_curves({"mine": turbolstm.Training(".", epochs), "loss": [3.0, 2.0, 1.0]})
    assert [line.get_label() for line in axes.lines] == [
        "mine training loss", "mine held-out loss", "mine accuracy", "loss loss",
    ]  # fmt: skip
    try:
        assert b"<svg" in plotting.network(plan)
    except RuntimeError as error:
        assert "dot is not installed" in str(error)
