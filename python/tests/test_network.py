"""Networks and runs on numpy arrays, without PyTorch."""

import gc
import os
import threading

import numpy as np
import pytest
import turbolstm
from reference import DIFFERENCE_STEP, DIFFERENCE_TOLERANCE, assert_close, lstm

T, B, I, H = 5, 3, 4, 6
NAMES = ["x", "h_0_l0", "c_0_l0", "weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"]


@pytest.fixture
def values():
    random = np.random.default_rng(7)
    shapes = {"x": (T, B, I), "h_0_l0": (B, H), "c_0_l0": (B, H), "weight_ih_l0": (4 * H, I), "weight_hh_l0": (4 * H, H),
              "bias_ih_l0": (4 * H,), "bias_hh_l0": (4 * H,)}  # fmt: skip
    return {name: random.normal(0, 0.5, shape).astype(np.float32) for name, shape in shapes.items()}


def network(**options):
    return turbolstm.Network("lstm", I, H, given_states=True, **options)


def outputs_of(run, values, lengths=None, resets=None):
    run.set_shape(T, B, lengths, resets)
    for name, array in values.items():
        run.bind(name, array)
    run.forward()
    return [read(run, name) for name in ("y", "h_n_l0", "c_n_l0")]


def read(run, name, rows=False):
    out = np.empty(run.output_shape(name, rows), np.float32)
    run.read_into(name, out, rows)
    return out


def wanted(values, **options):
    return lstm(values["x"], values, values["h_0_l0"], values["c_0_l0"], **options)


def test_what_a_network_says_of_itself():
    net = network()
    assert [p.name for p in net.parameters] == ["weight_ih_l0", "bias_ih_l0", "weight_hh_l0", "bias_hh_l0"]
    assert [p.features for p in net.parameters][:2] == [(4 * H, I), (4 * H,)]
    assert [(s.state, s.initial, s.final, s.size) for s in net.states] == [
        ("h", "h_0_l0", "h_n_l0", H),
        ("c", "c_0_l0", "c_n_l0", H),
    ]
    assert {value.name: value.rows for value in net.inputs}["x"] == "step"
    assert {"lstm", "gru", "indrnn"} <= {cell.name for cell in turbolstm.cells()}


def test_initial_values():
    net = network()
    drawn = net.initial_values("weight_hh_l0", 3)
    assert drawn.shape == (4 * H, H) and drawn.dtype == np.float32
    assert np.abs(drawn).max() <= H**-0.5 and drawn.std() > 0.1
    assert (net.initial_values("weight_hh_l0", 3) == drawn).all()
    assert (net.initial_values("weight_hh_l0", 4) != drawn).any()
    with pytest.raises(turbolstm.Error, match="there is no 'weight_zz'"):
        net.initial_values("weight_zz")


@pytest.mark.parametrize("threads", [1, 2])
def test_forward(values, threads):
    for got, want in zip(outputs_of(network(threads=threads).run(), values), wanted(values)):
        assert_close(got, want)


def test_lengths_and_empty_sequences(values):
    lengths = np.array([2, 0, 5], np.int32)
    values["x"][2:, 0] = values["x"][:, 1] = np.nan  # nobody reads padding
    for got, want in zip(outputs_of(network().run(), values, lengths), wanted(values, lengths=lengths)):
        assert_close(got, want)


def test_resets(values):
    resets = np.zeros((T, B), bool)
    resets[2, 0] = resets[0, 1] = resets[4, 2] = True
    for got, want in zip(outputs_of(network().run(), values, None, resets), wanted(values, resets=resets)):
        assert_close(got, want)


def test_rows(values):
    lengths = np.array([5, 3, 1], np.int32)
    run = network().run()
    y, *_ = outputs_of(run, values, lengths)
    valid = np.arange(T)[:, None] < lengths[None, :]
    run.bind("x", values["x"][valid], rows=True)
    run.forward()
    assert (read(run, "y", rows=True) == y[valid]).all()


@pytest.mark.parametrize("steps, batch", [(0, 3), (4, 0), (0, 0)])
def test_empty(values, steps, batch):
    run = network(gradients=NAMES, cotangents=["y", "h_n_l0"]).run()
    run.set_shape(steps, batch)
    values["x"] = np.zeros((steps, batch, I), np.float32)
    for name in ("h_0_l0", "c_0_l0"):
        values[name] = values[name][:batch]
    for name, array in values.items():
        run.bind(name, array)
    run.forward()
    assert (read(run, "h_n_l0") == values["h_0_l0"]).all() or steps > 0
    run.bind("d.y", np.ones((steps, batch, H), np.float32))
    run.bind("d.h_n_l0", np.ones((batch, H), np.float32))
    run.backward()
    assert not read(run, "d.weight_ih_l0").any()
    if steps == 0:
        assert (read(run, "d.h_0_l0") == 1).all()


def test_backward_against_differences(values):
    lengths = np.array([5, 0, 2], np.int32)
    random = np.random.default_rng(1)
    dy = random.normal(size=(T, B, H)).astype(np.float32)
    dc = random.normal(size=(B, H)).astype(np.float32)
    run = network(gradients=NAMES, cotangents=["y", "c_n_l0"]).run()
    outputs_of(run, values, lengths)
    run.bind("d.y", dy)
    run.bind("d.c_n_l0", dc)
    run.backward()
    valid = np.arange(T)[:, None, None] < lengths[None, :, None]

    def loss(changed):
        y, _, c = lstm(changed["x"], changed, changed["h_0_l0"], changed["c_0_l0"], lengths)
        return float((y * dy * valid).sum() + (c * dc).sum())

    for name in NAMES:
        gradient = read(run, "d." + name)
        for _ in range(5):
            at = tuple(random.integers(n) for n in gradient.shape)
            ends = []
            for sign in (1, -1):
                changed = {key: array.astype(np.float64) for key, array in values.items()}
                changed[name][at] += sign * DIFFERENCE_STEP
                ends.append(loss(changed))
            difference = (ends[0] - ends[1]) / (2 * DIFFERENCE_STEP)
            assert abs(gradient[at] - difference) <= DIFFERENCE_TOLERANCE, (name, at)


def test_arrays_are_read_where_they_lie_and_kept(values):
    run = network().run()
    first = outputs_of(run, values)
    values["x"][:] = 0  # seen without binding anew
    run.forward()
    assert_close(read(run, "y"), wanted(values)[0])
    assert (read(run, "y") != first[0]).any()
    for name in list(values):
        run.bind(name, values[name].copy())  # only the run holds these
    gc.collect()
    run.forward()
    assert_close(read(run, "y"), wanted(values)[0])
    read_only = values["x"].copy()
    read_only.flags.writeable = False
    run.bind("x", read_only)


def test_masks_follow_the_seed(values):
    run = network(num_layers=1, recurrent_dropout=0.5).run()
    outputs_of(run, values)
    seen = []
    for seed in (1, 2, 1):
        run.forward(training=True, seed=seed)
        seen.append(read(run, "y"))
    assert (seen[0] == seen[2]).all() and (seen[0] != seen[1]).any()


@pytest.mark.parametrize("options, message", [
    ({"cell": "lstn"}, "there is no cell 'lstn'; there are rnn_tanh"),
    ({"hidden_size": 0}, "hidden size is 0, wants > 0"),
    ({"input_size": -1}, "input size -1, wants > 0"),
    ({"num_layers": 0}, "got 0 layers"),
    ({"proj_size": 3}, "this cell projects nothing"),
    ({"dropout": 0.5}, "acts between layers"),
    ({"zoneout": 1.5}, "a probability is 1.5"),
    ({"precision": "fp16"}, "the precision fp16 needs a GPU"),
    ({"precision": "float"}, "float"),
    ({"threads": -1}, r"\[threads\] got -1"),
    ({"gradients": ["x"]}, "wants both or none"),
    ({"gradients": ["z"], "cotangents": ["y"]}, "there is no 'z' to differentiate by"),
    ({"gradients": ["x"], "cotangents": ["z"]}, "there is no output 'z'"),
])  # fmt: skip
def test_options_out_of_range(options, message):
    everything = {"cell": "lstm", "input_size": I, "hidden_size": H, **options}
    with pytest.raises(turbolstm.Error, match=message) as error:
        turbolstm.Network(**everything)
    assert isinstance(error.value, ValueError)


def test_arrays_that_do_not_fit(values):
    run = network().run()
    run.set_shape(T, B)
    x = values["x"]
    for bad, message in [
        (x.astype(np.float64), "got a float64 array .*wants a contiguous float32"),
        (x[:, :, ::2].repeat(2, axis=2)[:, :, ::1][:, ::-1], "not contiguous"),
        (x[1:], r"wants the shape \[5, 3, 4\]"),
        (x[..., None], r"wants the shape \[5, 3, 4\]"),
    ]:
        with pytest.raises(ValueError, match=message):
            run.bind("x", bad)
    with pytest.raises(TypeError):
        run.bind("x", [1.0])
    with pytest.raises(ValueError, match="there is no 'z'; there are x, "):
        run.bind("z", x)
    with pytest.raises(ValueError, match="'x' is not bound"):
        run.forward()
    with pytest.raises(turbolstm.Error, match=r"\[lengths\] entry 1 is 6, wants 0 to 5"):
        run.set_shape(T, B, np.array([1, 6, 2], np.int32))
    with pytest.raises(ValueError, match="wants a contiguous int32"):
        run.set_shape(T, B, np.array([1, 5, 2]))
    with pytest.raises(ValueError, match="resets"):
        run.set_shape(T, B, None, np.zeros((B, T), bool))
    for got, want in zip(outputs_of(run, values), wanted(values)):  # usable after all of these
        assert_close(got, want)
    with pytest.raises(ValueError, match="compiled without gradients"):
        run.backward()
    run.unbind()
    with pytest.raises(ValueError, match="is not bound"):
        run.forward()


def test_order_of_passes(values):
    run = network(gradients=["x"], cotangents=["y"]).run()
    outputs_of(run, values)
    with pytest.raises(ValueError, match="'d.y' is not bound"):
        run.backward()
    with pytest.raises(turbolstm.Error, match="before the second half"):
        read(run, "d.x")
    run.bind("d.y", np.ones((T, B, H), np.float32))
    run.backward()
    with pytest.raises(turbolstm.Error, match="once"):
        run.backward()


def test_runs_of_several_threads(values):
    net = network(threads=2)
    want = outputs_of(net.run(), values)
    failures = []

    def work():
        run = net.run()
        for _ in range(20):
            for got, expected in zip(outputs_of(run, values), want):
                if (got != expected).any():
                    failures.append("other bits")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of fork, in a process with threads
def test_a_forked_child_makes_runs_of_its_own(values):
    net = network(threads=2)
    run = net.run()
    want = outputs_of(run, values)[0]
    child = os.fork()
    if child == 0:
        code = 1
        try:
            run.forward()
        except turbolstm.Error as error:
            same = (outputs_of(net.run(), values)[0] == want).all()
            code = 0 if "fork" in str(error) and same else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
