#!/usr/bin/env python3
"""Tests of check_includes.py on small samples, each a path and the text of that file."""

import contextlib
import io
import pathlib
import tempfile
import unittest

import check_includes


def problems(path, text):
    return [message for _, message in check_includes.check_file(pathlib.PurePosixPath(path), text)]


def include(path, header):
    return problems(path, f'#include "{header}"\n')


class Directions(unittest.TestCase):
    def test_rows_above_are_allowed(self):
        for path, header in [
            ("src/tensor/tensor.h", "base/dtype.h"),
            ("src/graph/graph.cpp", "graph/graph.h"),
            ("src/ops/matmul/matmul.h", "tensor/tensor.h"),
            ("src/plan/plan.cpp", "ops/matmul/matmul.h"),
            ("src/train/loop.cpp", "io/safetensors.h"),
            ("src/cli/train.cpp", "train/loop.h"),
            ("src/cli/doctor.cpp", "turbolstm/device.h"),
            ("src/backend/cpu/device_cpu.cpp", "backend/backends.h"),
            ("src/backend/cpu/device_cpu.cpp", "backend/cpu/cpu_info.h"),
        ]:
            self.assertEqual(include(path, header), [], (path, header))

    def test_rows_below_are_refused(self):
        for path, header in [
            ("src/base/error.h", "tensor/tensor.h"),
            ("src/tensor/tensor.h", "graph/graph.h"),
            ("src/graph/graph.h", "plan/plan.h"),
            ("src/graph/graph.h", "nn/lstm.h"),
            ("src/ops/matmul/matmul.cpp", "graph/graph.h"),
            ("src/nn/lstm.cpp", "train/loop.h"),
            ("src/train/loop.cpp", "cli/train.h"),
            ("src/train/loop.cpp", "backend/backends.h"),
            ("src/backend/cpu/device_cpu.cpp", "tensor/tensor.h"),
        ]:
            self.assertEqual(len(include(path, header)), 1, (path, header))

    def test_public_headers_include_only_the_standard_library(self):
        self.assertEqual(include("include/turbolstm/device.h", "vector"), [])
        self.assertEqual(include("include/turbolstm/device.h", "turbolstm/version.h"), [])
        self.assertEqual(len(include("include/turbolstm/device.h", "base/error.h")), 1)
        self.assertEqual(len(include("include/turbolstm/device.h", "fmt/core.h")), 1)

    def test_tests_may_include_anything(self):
        self.assertEqual(include("src/base/error_test.cpp", "train/loop.h"), [])


class Vendors(unittest.TestCase):
    def test_own_backend_only(self):
        for path, header in [
            ("src/backend/cuda/device_cuda.cpp", "cuda.h"),
            ("src/ops/matmul/matmul_cuda.cpp", "cublasLt.h"),
            ("src/ops/matmul/matmul_cuda.cu", "cuda_runtime.h"),
            ("src/ops/matmul/matmul_cuda.cpp", "backend/cuda/stream_cuda.h"),
            ("src/ops/matmul/matmul_cpu.cpp", "immintrin.h"),
            ("src/ops/lstm/gates_cpu-inl.h", "immintrin.h"),
            ("src/ops/lstm/gates-inl.h", "hwy/highway.h"),
        ]:
            self.assertEqual(include(path, header), [], (path, header))
        for path, header in [
            ("src/ops/matmul/matmul.cpp", "cublasLt.h"),
            ("src/ops/matmul/matmul_cpu.cpp", "cuda_runtime.h"),
            ("src/ops/matmul/matmul.cpp", "backend/cuda/stream_cuda.h"),
            ("src/ops/matmul/matmul_cpu.cpp", "backend/cuda/stream_cuda.h"),
            ("src/backend/cpu/device_cpu.cpp", "backend/cuda/stream_cuda.h"),
            ("src/tensor/tensor.cpp", "immintrin.h"),
            ("src/ops/matmul/matmul.cpp", "immintrin.h"),
            ("src/graph/graph.cpp", "hwy/highway.h"),
            ("include/turbolstm/device.h", "cuda.h"),
        ]:
            self.assertEqual(len(include(path, header)), 1, (path, header))

    def test_only_the_interface_of_an_operator_is_for_others(self):
        self.assertEqual(include("src/plan/executor.cpp", "ops/matmul/matmul.h"), [])
        self.assertEqual(len(include("src/plan/executor.cpp", "ops/matmul/matmul_cpu.h")), 1)
        self.assertEqual(include("src/ops/lstm/lstm_cpu.cpp", "ops/matmul/matmul_cpu.h"), [])


class BackendBlindFolders(unittest.TestCase):
    def test_code_that_names_a_backend(self):
        for text in ["if (device.kind == DeviceKind::kCuda) {}", 'Fail("no gpu");', "int cpu_threads;", "UseCPU();"]:
            self.assertEqual(len(problems("src/plan/plan.cpp", text)), 1, text)
            self.assertEqual(len(problems("src/graph/graph.cpp", text)), 1, text)
            self.assertEqual(problems("src/train/loop.cpp", text), [], text)

    def test_comments_and_other_words(self):
        for text in ["// as on cuda", "/* cpu\ncpu */", "descend(); Ascending order; occupied;"]:
            self.assertEqual(problems("src/plan/plan.cpp", text), [], text)

    def test_line_numbers_count_comments(self):
        found = list(check_includes.check_file(pathlib.PurePosixPath("src/plan/a.cpp"), "/*\n\n*/\nint gpu;\n"))
        self.assertEqual([line for line, _ in found], [4])


class WholeTree(unittest.TestCase):
    def test_exit_status(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "src/base").mkdir(parents=True)
            (root / "src/base/a.h").write_text('#include "base/b.h"\n')
            self.assertEqual(check_includes.main(root), 0)
            (root / "src/base/a.h").write_text('#include "cli/b.h"\n')
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                self.assertEqual(check_includes.main(root), 1)
            self.assertTrue(printed.getvalue().startswith("src/base/a.h:1: "))


if __name__ == "__main__":
    unittest.main()
