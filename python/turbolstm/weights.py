"""Weights in files: safetensors, NPZ and PyTorch's .pt, chosen by the file's name.

``load`` gives numpy arrays by name, ``save`` takes arrays, or a ``state_dict`` of PyTorch's. Files are hostile until
checked: nothing is unpickled but by PyTorch's own loader of plain weights, and no memory is asked for that the file does
not account for.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy
from numpy.lib import format as npy

from . import _core
from ._core import Error

__all__ = ["load", "metadata", "save"]

_MOST_BYTES = 1 << 36  # of an NPZ file's arrays, unpacked


def load(path: str | os.PathLike) -> dict[str, numpy.ndarray]:
    """All arrays of a file by name.

    .safetensors: float32, float64, float16, bfloat16 (given as float32), int32 and int64. .npz: any numpy type but objects.
    .pt and .pth: a state_dict that torch.save wrote, or a mapping that has one as "state_dict"; needs PyTorch.
    Error, naming the file and what is wrong with it: whatever is no such file.
    """
    path = os.fspath(path)
    return _by_suffix(
        path, {".safetensors": _core.read_safetensors, ".npz": _read_npz, ".pt": _read_pt, ".pth": _read_pt}
    )(path)


def metadata(path: str | os.PathLike) -> dict[str, str]:
    """What a safetensors file says beside its arrays."""
    return _core.safetensors_metadata(os.fspath(path))


def save(path: str | os.PathLike, weights: Mapping[str, Any], metadata: Mapping[str, str] | None = None) -> None:
    """Writes arrays (or tensors) by name, replacing the file at once or not at all; metadata: of safetensors only."""
    path = os.fspath(path)
    if metadata and not path.endswith(".safetensors"):
        raise ValueError(f"[weights] {path}: only safetensors files hold metadata")
    write = _by_suffix(
        path, {".safetensors": _write_safetensors, ".npz": _write_npz, ".pt": _write_pt, ".pth": _write_pt}
    )
    write(path, {str(name): _array(name, value) for name, value in weights.items()}, dict(metadata or {}))


def _by_suffix(path: str, functions: Mapping[str, Any]):
    suffix = os.path.splitext(path)[1]
    if suffix not in functions:
        raise ValueError(f"[weights] {path} ends in '{suffix}', wants {', '.join(functions)}")
    return functions[suffix]


def _array(name: str, value) -> numpy.ndarray:
    if hasattr(value, "detach"):  # a tensor, of a type that numpy may lack
        value = value.detach().cpu()
        value = value.float() if str(value.dtype) == "torch.bfloat16" else value
        value = value.numpy()
    array = numpy.asarray(value)
    if array.dtype.hasobject:
        raise ValueError(f"[weights] '{name}' is a {type(value).__name__}, wants an array of numbers")
    # ascontiguousarray would make a scalar an array of one.
    return array if array.flags.c_contiguous else array.copy(order="C")


def _write_safetensors(path: str, arrays: dict[str, numpy.ndarray], about: dict[str, str]) -> None:
    _core.write_safetensors(path, arrays, about)


def _read_npz(path: str) -> dict[str, numpy.ndarray]:
    with open(path, "rb") as file:
        try:
            with zipfile.ZipFile(file) as archive:
                return _read_members(path, archive)
        except (Error, MemoryError):
            raise
        except Exception as error:  # broken archives and headers raise many kinds, even OSError
            raise Error(f"[npz] {path}: {error or type(error).__name__}") from None


def _read_members(path: str, archive: zipfile.ZipFile) -> dict[str, numpy.ndarray]:
    arrays: dict[str, numpy.ndarray] = {}
    members = archive.infolist()
    total = sum(member.file_size for member in members)
    if total > _MOST_BYTES:
        raise Error(f"[npz] {path}: its arrays take {total} bytes, at most {_MOST_BYTES} are read")
    for member in members:
        name = member.filename[:-4]
        if not member.filename.endswith(".npy") or name in arrays:
            raise Error(f"[npz] {path}: '{member.filename}' is {'there twice' if name in arrays else 'no .npy'}")
        with archive.open(member) as file:
            arrays[name] = _read_npy(f"[npz] {path}: '{name}'", file, member.file_size)
    return arrays


def _read_npy(what: str, file, size: int) -> numpy.ndarray:
    version = npy.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise Error(f"{what} has the format {version[0]}.{version[1]}, wants 1.0 or 2.0")
    shape, by_column, dtype = (npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0)(file)
    if dtype.hasobject:
        raise Error(f"{what} holds Python objects, wants numbers")
    count = 1
    for n in shape:
        count *= n
    rest = size - file.tell()
    if any(n < 0 for n in shape) or count * dtype.itemsize != rest:
        raise Error(
            f"{what} has {rest} bytes of data, its shape {list(shape)} of {dtype} wants {count * dtype.itemsize}"
        )
    data = numpy.frombuffer(bytearray(file.read()), dtype, count) if count else numpy.empty(0, dtype)
    return data.reshape(shape[::-1]).T if by_column else data.reshape(shape)


def _write_npz(path: str, arrays: dict[str, numpy.ndarray], _) -> None:
    with _Replacing(path) as file:
        with zipfile.ZipFile(file, "w") as archive:
            for name, array in arrays.items():
                with archive.open(name + ".npy", "w", force_zip64=True) as member:
                    npy.write_array(member, array, allow_pickle=False)


def _read_pt(path: str) -> dict[str, numpy.ndarray]:
    import torch

    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except OSError:
        raise
    except Exception as error:  # its unpickler raises whatever the bytes lead to
        raise Error(f"[pt] {path}: {str(error).splitlines()[0] if str(error) else type(error).__name__}") from None
    if isinstance(content, Mapping) and isinstance(content.get("state_dict"), Mapping):
        content = content["state_dict"]
    if not isinstance(content, Mapping) or not all(isinstance(value, torch.Tensor) for value in content.values()):
        raise Error(f"[pt] {path}: holds a {type(content).__name__}, wants a state_dict of tensors")
    return {str(name): _array(name, value) for name, value in content.items()}


def _write_pt(path: str, arrays: dict[str, numpy.ndarray], _) -> None:
    import torch

    with _Replacing(path) as file:
        torch.save({name: torch.from_numpy(array.copy()) for name, array in arrays.items()}, file)


class _Replacing:
    """A file beside the target, which it becomes when all went well."""

    def __init__(self, path: str):
        self._path = os.path.realpath(path)
        self._part = f"{self._path}.{os.getpid()}.part"

    def __enter__(self):
        self._file = open(self._part, "wb")
        return self._file

    def __exit__(self, kind, *_):
        try:
            if kind is None:
                self._file.flush()
                os.fsync(self._file.fileno())
            self._file.close()
            if kind is None:
                os.replace(self._part, self._path)
        finally:
            if os.path.exists(self._part):
                os.unlink(self._part)
