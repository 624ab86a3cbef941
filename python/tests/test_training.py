"""turbolstm.train and what it leaves."""

import random

import numpy
import pytest

import turbolstm
import turbolstm.onnx

GOOD, BAD = ["fine", "lovely", "brilliant", "warm"], ["dull", "awful", "weak", "cold"]


@pytest.fixture
def reviews(tmp_path):
    """Sentences that one word decides."""
    draw = random.Random(1)
    lines = []
    for i in range(240):
        good = i % 2 == 0
        words = [draw.choice(["film", "plot", "the", "a", "scene"]) for _ in range(draw.randint(2, 9))]
        words[draw.randrange(len(words))] = draw.choice(GOOD if good else BAD)
        lines.append(f"{i}\t{3 if good else -3}\t{' '.join(words)}")
    path = tmp_path / "reviews.tsv"
    path.write_text("\n".join(lines) + "\n")
    return path


def config(reviews, tmp_path, **model):
    return {
        "data": {"kind": "tsv", "path": reviews},
        "model": {"embedding": 8, "hidden": 12, **model},
        "train": {"epochs": 6, "batch": 8, "learning_rate": 0.01, "threads": 1},
        "output": {"directory": tmp_path / "run"},
    }


def test_training_reports_and_leaves_a_run(reviews, tmp_path, capsys):
    seen, batches = [], []
    done = turbolstm.train(config(reviews, tmp_path), on_epoch=seen.append, on_batch=batches.append, progress=True)
    assert done.epochs == seen and [epoch["epoch"] for epoch in seen] == list(range(1, 7))
    assert seen[-1]["held_out_accuracy"] > 0.9 and seen[-1]["train_loss"] < seen[0]["train_loss"]
    assert len(batches) == 6 * 27 and batches[-1]["batch"] == batches[-1]["batches"] == 27
    assert len(capsys.readouterr().err.splitlines()) == 6
    run = done.load("cpu")
    assert run.labels == ["negative", "positive"] and 1 <= run.epochs <= 6 and "hidden = 12" in run.config
    answers = run.predict(["a lovely film", "the plot, a dull plot"])
    assert answers.shape == (2, 2) and answers[0, 1] > 0.5 > answers[1, 1]
    numpy.testing.assert_allclose(answers.sum(1), 1, atol=1e-6)


def test_the_same_config_gives_the_same_bytes(reviews, tmp_path):
    weights = []
    for name in ("one", "two"):
        turbolstm.train(config(reviews, tmp_path), "train.epochs=2", f"output.directory={tmp_path / name}")
        weights.append((tmp_path / name / "checkpoint.safetensors").read_bytes())
    assert weights[0] == weights[1]


def test_callbacks_end_the_training(reviews, tmp_path):
    done = turbolstm.train(config(reviews, tmp_path), on_epoch=lambda epoch: epoch["epoch"] == 2)
    assert len(done.epochs) == 2

    def fail(batch):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        turbolstm.train(config(reviews, tmp_path), replace=True, on_batch=fail)


def test_errors_name_what_is_wrong(reviews, tmp_path):
    with pytest.raises(turbolstm.Error, match="hidden_.*hidden"):
        turbolstm.train(config(reviews, tmp_path, hidden_=3))
    with pytest.raises(TypeError, match="section 'data' is a str"):
        turbolstm.train({"data": "reviews.tsv"})
    with pytest.raises(FileNotFoundError, match="absent.toml"):
        turbolstm.train(tmp_path / "absent.toml")
    (tmp_path / "run").mkdir()
    turbolstm.train(config(reviews, tmp_path), "train.epochs=1", replace=True)
    with pytest.raises(turbolstm.Error, match="run"):
        turbolstm.train(config(reviews, tmp_path))
    with pytest.raises(turbolstm.Error, match="text 1 has no words"):
        turbolstm.TrainedRun(tmp_path / "run", "cpu").predict(["fine", " "])


@pytest.mark.parametrize("model", [
    dict(pooling="last"), dict(pooling="mean", cell="gru"), dict(pooling="max", cell="rnn_tanh", bidirectional=True),
    dict(pooling="last", bidirectional=True, layers=2, dropout=0.3), dict(pooling="last", cell="slstm"),
    dict(pooling="last", cell="tau_gru"), dict(pooling="max", cell="lstm_projection", projection=5),
], ids=str)  # fmt: skip
def test_exported_classifiers_answer_the_same(reviews, tmp_path, model):
    runtime = pytest.importorskip("onnxruntime")
    run = turbolstm.train(config(reviews, tmp_path, **model), "train.epochs=1").load("cpu")
    turbolstm.onnx.export(tmp_path / "run", tmp_path / "m.onnx")
    session = runtime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    texts = ["a lovely film", "the plot, a dull plot", "unknown words, many of them; weak scene", "fine"]
    rows = [run.encode(text) for text in texts]
    steps = max(map(len, rows)) + 2
    tokens = numpy.zeros((steps, len(rows)), numpy.int64)
    for b, row in enumerate(rows):
        tokens[: len(row), b] = row
    lengths = numpy.array([len(row) for row in rows], numpy.int32)
    logits, probabilities = session.run(["logits", "probabilities"], {"tokens": tokens, "sequence_lens": lengths})
    numpy.testing.assert_allclose(probabilities, run.predict(texts), atol=1e-5)
    alone = session.run(["logits"], {"tokens": tokens[:1, 3:], "sequence_lens": lengths[3:]})[0]
    numpy.testing.assert_allclose(alone, logits[3:], atol=1e-5)
    assert session.get_modelmeta().custom_metadata_map["labels"].split("\n") == run.labels
