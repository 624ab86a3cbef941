#!/usr/bin/env python3
"""Checks who includes whom, and who may name a vendor's headers or a backend.

Usage: check_includes.py [ROOT]     prints one line a violation, exits 1 if there is any
The rules are those of docs/architecture.md ("Layout"); the reasons stand there.
"""

import pathlib
import re
import sys

# Folder of src/ -> folders of src/ it may include. Every folder may include itself and the public
# headers (turbolstm/...), which include nothing but the standard library.
_BELOW_OPS = ["base", "runtime", "tensor"]
_BELOW_CELLS = _BELOW_OPS + ["ops", "graph"]
_BELOW_NN = _BELOW_CELLS + ["cells"]
_BELOW_TRAIN = _BELOW_NN + ["plan", "execution", "nn", "optim", "data", "io"]
MAY_INCLUDE = {
    "base": [],
    "runtime": ["base"],
    "tensor": ["base", "runtime"],
    "backend": ["base", "runtime"],
    "ops": _BELOW_OPS,
    "graph": _BELOW_OPS + ["ops"],
    "cells": _BELOW_CELLS,
    "plan": _BELOW_CELLS,
    "execution": _BELOW_CELLS + ["plan"],
    "nn": _BELOW_NN,
    "optim": _BELOW_NN,
    "data": _BELOW_NN,
    "io": _BELOW_CELLS,
    "train": _BELOW_TRAIN,
    "kernels": _BELOW_NN + ["plan", "execution", "nn"],
    "api": _BELOW_NN + ["plan", "execution", "nn", "kernels"],
    "exchange": _BELOW_TRAIN + ["train"],
    "cli": _BELOW_TRAIN + ["train", "exchange", "kernels"],
}

# Backend -> its vendors' headers.
VENDOR_HEADERS = {
    "cpu": r"([a-z]*intrin\.h|arm_neon\.h|cblas\.h|dnnl.*|oneapi/dnnl/.*|libxsmm.*|cpuid\.h)",
    "cuda": r"(cuda.*|cu(blas|dnn|rand|sparse|solver).*|nvrtc.*|nvml\.h|nvtx3/.*|nccl.*|cub/.*|cutlass/.*|cute/.*)",
    "ascend": r"(acl/.*|aclnn.*|hccl.*|kernel_operator\.h)",
}

# Portable SIMD belongs where kernels are; no vendor's, so the suffix _cpu is not asked for.
SIMD_HEADERS = r"hwy/.*"
SIMD_FOLDERS = ["ops", "backend"]

# Folders whose code is the same on every backend, so that it names none.
BACKEND_BLIND = ["graph", "plan"]
BACKEND_WORDS = {"cuda", "cublas", "cudnn", "nvrtc", "ascend", "npu", "gpu", "cpu"}

_INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_SUFFIXES = {".h", ".cpp", ".cu", ".cuh"}


def is_test(path):
    """Tests and benchmarks are read with the whole tree in mind: they may include anything."""
    return re.search(r"_(test|bench|fuzz)$", path.stem) is not None


def backend_of(path):
    """The backend a file of src/ belongs to, by its folder or its suffix, or None."""
    for backend in VENDOR_HEADERS:
        if path.parts[1:3] == ("backend", backend):
            return backend
        if re.search(rf"_{backend}(-inl)?$", path.stem):
            return backend
    return None


def check_include(path, header):
    """Why the file `path` (relative to the root) must not include `header`, or None."""
    folder = path.parts[1] if path.parts[0] == "src" else path.parts[0]
    own = backend_of(path)

    for backend, pattern in VENDOR_HEADERS.items():
        if re.fullmatch(pattern, header) and own != backend:
            return f"vendor header of {backend} outside backend/{backend}/ and *_{backend}.*"

    if re.fullmatch(SIMD_HEADERS, header) and folder not in SIMD_FOLDERS:
        return f"SIMD outside {', '.join(SIMD_FOLDERS)}"

    target = header.split("/")[0]
    if "/" not in header or target not in MAY_INCLUDE:
        if folder == "include" and "." in header and target != "turbolstm":
            return "public headers include the standard library only"
        return None
    if folder == "include":
        return "public headers include the standard library only"

    header_backend = backend_of(pathlib.PurePosixPath("src", header))
    if target == "backend" and own is not None and header_backend == own:
        return None
    if target == folder == "backend" and header_backend not in (None, own):
        return f"{own or 'every'} backend includes backend/{header_backend}/"
    if target != "backend" and header_backend is not None and header_backend != own:
        return f"header of the {header_backend} backend outside backend/{header_backend}/ and *_{header_backend}.*"
    if target != folder and target not in MAY_INCLUDE.get(folder, []):
        allowed = ", ".join(MAY_INCLUDE.get(folder, [])) or "no other folder"
        return f"{folder}/ may include {allowed}"
    return None


def check_words(path, text):
    """Yields (line, word) for each backend named in code of a folder that must not name one."""
    if len(path.parts) < 2 or path.parts[1] not in BACKEND_BLIND:
        return
    code = _COMMENT.sub(lambda match: "\n" * match.group().count("\n"), text)
    for number, line in enumerate(code.split("\n"), 1):
        if _INCLUDE.match(line):
            continue
        for word in _WORD.findall(line):
            if word.lower() in BACKEND_WORDS:
                yield number, word


def check_file(path, text):
    """Yields (line, message) for each violation in a file whose path is relative to the root."""
    if is_test(path):
        return
    for match in _INCLUDE.finditer(text):
        problem = check_include(path, match.group(1))
        if problem:
            yield text.count("\n", 0, match.start(1)) + 1, f'includes "{match.group(1)}": {problem}'
    for number, word in check_words(path, text):
        yield number, f"names a backend ({word}): {path.parts[1]}/ is the same on all of them"


def main(root):
    violations = 0
    for top in ("include", "src"):
        for file in sorted((root / top).rglob("*")):
            if file.suffix not in _SUFFIXES:
                continue
            path = file.relative_to(root)
            for line, message in check_file(pathlib.PurePosixPath(path), file.read_text()):
                print(f"{path}:{line}: {message}")
                violations += 1
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")))
