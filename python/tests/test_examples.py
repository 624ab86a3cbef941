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


@pytest.mark.parametrize("page", ["README.md", "docs/python.md"])
def test_code_of_the_pages_runs(page):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    assert blocks
    for block in blocks:
        if "torch" in block:
            pytest.importorskip("torch")
        run("-c", block)
