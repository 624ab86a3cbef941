"""The examples, and the code of docs/python.md and the README, run as they are written."""

import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(*command):
    done = subprocess.run(
        [sys.executable, *map(str, command)], check=False, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("which", ["ours", "torch"])
def test_classifier_learns(which):
    pytest.importorskip("torch")
    options = ["--torch"] if which == "torch" else []
    text = run(ROOT / "examples/python/classify_sequences.py", "--epochs", 4, *options)
    assert ("turbolstm.torch.LSTM" in text) == (which == "ours")
    accuracies = [float(word) for word in re.findall(r": ([01]\.\d+) of 400", text)]
    assert len(accuracies) == 4 and accuracies[-1] > 0.85


@pytest.mark.parametrize("which", ["ours", "torch"])
def test_imdb_script_runs_with_either_layer(tmp_path, which):
    pytest.importorskip("torch")
    for part, count in (("train", 150), ("test", 50)):
        for label, words in (("neg", ("dull", "awful")), ("pos", ("fine", "lovely"))):
            folder = tmp_path / part / label
            folder.mkdir(parents=True)
            for i in range(count):
                text = " ".join(["the film was"] * (1 + i % 7) + [words[i % 2]] + ["a plot"] * (i % 5))
                (folder / f"{i}_7.txt").write_text(text)
    options = ["--torch"] if which == "torch" else ["--onnx", tmp_path / "m.onnx"]
    text = run(ROOT / "examples/python/imdb.py", tmp_path, "--epochs", 5, *options)
    assert ("turbolstm.torch" in text) == (which == "ours")
    accuracies = [float(word) for word in re.findall(r": ([01]\.\d+) of 100", text)]
    assert len(accuracies) == 5 and accuracies[-1] > 0.95
    assert (tmp_path / "m.onnx").exists() == (which == "ours")


def test_recurrent_policy_learns():
    """In CleanRL's shape, with resets."""
    pytest.importorskip("torch")
    text = run(ROOT / "examples/python/recurrent_ppo.py", "--updates", 20)
    recalled = [float(word) for word in re.findall(r": ([01]\.\d+) of", text)]
    assert recalled[-1] > 0.5  # guessing recalls 0.25


def test_forecast_beats_simple_guesses():
    pytest.importorskip("sklearn", minversion="1.6")
    pytest.importorskip("matplotlib")
    text = run("-c", f"import matplotlib; matplotlib.use('agg'); exec(open({str(ROOT / 'examples/python/forecast.py')!r}).read())")
    network, last, season = (float(word) for word in re.findall(r"error (\d+\.\d+)", text))
    assert network < 0.8 * min(last, season)


def test_exported_layer_runs(tmp_path):
    pytest.importorskip("torch")
    pytest.importorskip("onnxruntime")
    text = run(ROOT / "examples/python/export_onnx.py", tmp_path / "m.onnx")
    assert text.count("largest difference") == 3


@pytest.mark.parametrize("page", ["README.md", "docs/python.md", "docs/pytorch.md", "docs/cells.md"])
def test_code_of_the_pages_runs(page):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    assert blocks
    for block in blocks:
        for package in ("torch", "sklearn"):
            if package in block:
                pytest.importorskip(package)
        run("-c", block)
