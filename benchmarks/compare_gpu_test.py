#!/usr/bin/env python3
"""Tests of compare_gpu.py with programs that need no GPU: python3 -m unittest benchmarks/compare_gpu_test.py"""

import contextlib
import io
import json
import pathlib
import stat
import sys
import tempfile
import types
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import compare_gpu  # noqa: E402
from harness_gpu_report import compare, given_mib, print_report, ratio, step_mib  # noqa: E402

SHAPES = {
    "shapes": [
        {"group": "goal", "cell": "lstm", "T": 4, "B": 2, "I": 8, "H": 8, "L": 1, "short": True},
        {"group": "core", "cell": "gru", "T": 4, "B": 2, "I": 8, "H": 8, "L": 1, "fp32": True},
    ],
    "models": [{"group": "imdb", "model": "imdb", "T": 4, "B": 2, "I": 8, "H": 8, "L": 1}],
}
# Answers every case with the given times by variant; ends at a cell of the name CRASH.
PROGRAM = """#!{python}
import pathlib, sys
sys.path.insert(0, {here!r})
from harness_cases import read_cases, serve

def measure(case, precision):
    if case["cell"] == {crash!r}:
        sys.exit("out of memory")
    run = {{**case, "precision": precision, "pass": "train", "runs": 21}}
    return [{{**run, "variant": variant, "median_ms": ms}} for variant, ms in {times!r}.items()]

cases = read_cases(pathlib.Path(sys.argv[sys.argv.index("--shapes") + 1]))
serve({{"implementation": {name!r}, "version": "1"}}, cases, measure)
"""


class CompareTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "shapes.json").write_text(json.dumps(SHAPES))

    def program(self, name, times, crash=""):
        path = self.folder / name
        path.write_text(PROGRAM.format(python=sys.executable, here=str(HERE), name=name, times=times, crash=crash))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    def run_with(self, ours, cudnn, **more):
        """Rows of the CSV and what was said; PyTorch's program is left out."""
        names = {"short": False, "precision": ["bf16"], "only": None, "passes": ["train"], "resume": None, "commit": "c", "prepare": 0}
        options = types.SimpleNamespace(**{**names, "ours": ours, "cudnn": cudnn, "python": "/nowhere/python", **more})
        options.shapes, options.output, options.min_time = self.folder / "shapes.json", self.folder, 0.05
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            self.path = compare_gpu.measure_all(options)
        return compare_gpu.read_rows(self.path), said.getvalue()

    def test_ratios_are_over_the_fastest_and_over_standard_captured(self):
        cudnn = self.program("cuDNN", {"standard/graph": 6.0, "standard/eager": 9.0, "persist_static/eager": 3.0})
        rows, said = self.run_with(self.program("TurboLSTM", {"": 2.0}), cudnn)
        self.assertIn("left out: PyTorch: is not built", said)
        compared, who = compare(rows)
        self.assertEqual(who, "TurboLSTM")
        self.assertEqual([found["group"] for found in compared], ["goal", "core"])
        self.assertEqual([ratio(compared[0], rival) for rival in ("best", "standard", "pytorch")], [1.5, 3.0, None])
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            print_report(rows)
        self.assertIn("goal bf16: 1.500 times the fastest of cuDNN over 1 cases", printed.getvalue())

    def test_a_program_that_ends_runs_anew_and_its_case_is_measured_when_resumed(self):
        cudnn = self.program("cuDNN", {"standard/graph": 6.0})
        rows, said = self.run_with(self.program("TurboLSTM", {"": 2.0}, crash="lstm"), cudnn)
        self.assertIn("out of memory", said)
        ours = [row for row in rows if row["implementation"] == "TurboLSTM"]
        self.assertEqual([(row["cell"], row["error"]) for row in ours], [("lstm", "out of memory"), ("gru", "")])
        rows, _ = self.run_with(self.program("TurboLSTM", {"": 2.0}), cudnn, resume=self.path)
        added = [row for row in rows if row["implementation"] == "TurboLSTM"][2:]
        self.assertEqual([(row["cell"], row["median_ms"]) for row in added], [("lstm", 2.0)])
        self.assertEqual(len([row for row in rows if row["implementation"] == "cuDNN"]), 2)

    def test_ours_runs_every_case_before_anything_is_timed(self):
        cudnn = self.program("cuDNN", {"standard/graph": 6.0})
        _, said = self.run_with(self.program("TurboLSTM", {"": 2.0}, crash="lstm"), cudnn, prepare=2)
        self.assertLess(said.index("prepared 3 cases"), said.index("out of memory"))

    def test_a_short_run_takes_marked_shapes_and_fp32_only_where_asked(self):
        options = types.SimpleNamespace(shapes=self.folder / "shapes.json", short=True, precision=None, only=None)
        chosen = [(group, precision) for group, _, precision in compare_gpu.chosen_cases(options)]
        self.assertEqual(chosen, [("goal", "tf32"), ("goal", "bf16"), ("goal", "fp16")])
        options.short, options.only = False, ["core"]
        self.assertEqual([c[2] for c in compare_gpu.chosen_cases(options)], ["tf32", "bf16", "fp16", "fp32", "bf16x6"])

    def test_rivals_of_bf16x6_run_in_fp32(self):
        asked = []
        driver = types.SimpleNamespace(ask=lambda case, precision: asked.append(precision) or [{"precision": precision}])
        case = {"case": "lstm"}
        ours = compare_gpu.ask(driver, "TurboLSTM", case, "bf16x6")
        theirs = compare_gpu.ask(driver, "cuDNN", case, "bf16x6")
        self.assertEqual(asked, ["bf16x6", "fp32"])
        self.assertEqual(ours, [{"precision": "bf16x6"}])
        self.assertEqual(theirs, [{"precision": "bf16x6", "note": "runs in fp32"}])
        self.assertEqual(compare_gpu.ask(driver, "cuDNN", case, "bf16"), [{"precision": "bf16"}])

    def test_memory_counts_what_a_step_takes_beside_what_it_is_given(self):
        case = {"cell": "lstm", "T": 2, "B": 4, "I": 8, "H": 16, "L": 2, "bidirectional": "True", "precision": "bf16"}
        weights = 2 * 4 * 16 * ((8 + 16 + 2) + (32 + 16 + 2))
        steps = 2 * 4 * (8 + 32)
        ours = {**case, "implementation": "TurboLSTM"}
        cudnn = {**case, "implementation": "cuDNN"}
        self.assertEqual(given_mib(ours) * 2**20, 4 * weights + 2 * steps)
        self.assertEqual(given_mib(cudnn) * 2**20, 2 * (weights + steps))
        self.assertEqual(given_mib({**cudnn, "precision": "fp32"}) * 2**20, 4 * (weights + steps))
        self.assertEqual(step_mib({**ours, "peak_memory_mib": 5 + given_mib(ours)}), 5)
        self.assertIsNone(step_mib(ours))

    def test_memory_of_cudnn_is_reserve_workspace_and_outputs(self):
        path = HERE / "results" / "rnn-gpu-20261201.csv"
        rows = [row for row in compare_gpu.read_rows(path) if row["implementation"] == "cuDNN" and row["median_ms"]]
        rows = [row for row in rows if row["cell"] in ("lstm", "gru")]
        self.assertGreater(len(rows), 100)
        for row in rows:
            parts = sum(int(row[name]) for name in ("reserve_bytes", "workspace_bytes", "output_bytes"))
            self.assertAlmostEqual(step_mib(row) * 2**20 / parts, 1, delta=2e-3, msg=row["case"])

    def test_without_any_program_it_says_so(self):
        with self.assertRaisesRegex(SystemExit, "no program runs on a GPU"):
            self.run_with(self.folder / "none", self.folder / "none")


if __name__ == "__main__":
    unittest.main()
