"""Weights in files, hostile ones included."""

import io
import json
import struct
import zipfile

import numpy
import pytest

import turbolstm
from turbolstm import weights

ARRAYS = {
    "a": numpy.arange(6, dtype=numpy.float32).reshape(2, 3),
    "scalar": numpy.array(2.5),
    "empty": numpy.zeros((0, 4), numpy.float16),
    "count": numpy.array([1, -(2**40)]),
    "b.weight": numpy.array([[1, 2]], numpy.int32),
}


@pytest.mark.parametrize("suffix", [".safetensors", ".npz", ".pt"])
def test_arrays_come_back_as_they_were(tmp_path, suffix):
    if suffix == ".pt":
        pytest.importorskip("torch")
    path = tmp_path / f"w{suffix}"
    weights.save(path, ARRAYS)
    back = weights.load(path)
    assert back.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert back[name].dtype == array.dtype and back[name].shape == array.shape, name
        numpy.testing.assert_array_equal(back[name], array)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_other_packages_read_ours_and_we_theirs(tmp_path):
    safetensors = pytest.importorskip("safetensors.numpy")
    weights.save(tmp_path / "ours.safetensors", ARRAYS, {"made": "here"})
    for name, array in safetensors.load_file(tmp_path / "ours.safetensors").items():
        numpy.testing.assert_array_equal(array, ARRAYS[name])
    safetensors.save_file(ARRAYS, tmp_path / "theirs.safetensors", {"by": "them"})
    assert weights.load(tmp_path / "theirs.safetensors").keys() == ARRAYS.keys()
    assert weights.metadata(tmp_path / "theirs.safetensors") == {"by": "them"}
    assert weights.metadata(tmp_path / "ours.safetensors") == {"made": "here"}
    weights.save(tmp_path / "ours.npz", ARRAYS)
    numpy.testing.assert_array_equal(numpy.load(tmp_path / "ours.npz")["a"], ARRAYS["a"])
    numpy.savez_compressed(tmp_path / "theirs.npz", **ARRAYS, columns=numpy.asfortranarray(ARRAYS["a"]))
    theirs = weights.load(tmp_path / "theirs.npz")
    numpy.testing.assert_array_equal(theirs["columns"], ARRAYS["a"])


def test_a_state_dict_goes_to_pytorch_and_back(tmp_path):
    torch = pytest.importorskip("torch")
    import turbolstm.torch

    theirs = torch.nn.LSTM(3, 4, num_layers=2, bidirectional=True)
    x = torch.randn(5, 2, 3)
    for suffix in (".safetensors", ".npz", ".pt"):
        weights.save(tmp_path / f"w{suffix}", theirs.state_dict())
        ours = turbolstm.torch.LSTM(3, 4, num_layers=2, bidirectional=True)
        ours.load_state_dict({name: torch.from_numpy(a) for name, a in weights.load(tmp_path / f"w{suffix}").items()})
        torch.testing.assert_close(ours(x)[0], theirs(x)[0], rtol=1e-5, atol=1e-6)
    torch.save({"state_dict": theirs.state_dict(), "epoch": 3}, tmp_path / "lightning.pt")
    assert weights.load(tmp_path / "lightning.pt").keys() == theirs.state_dict().keys()
    half = {"w": torch.tensor([1.0, -2.5, 3.0e38]).bfloat16()}
    weights.save(tmp_path / "half.npz", half)
    numpy.testing.assert_array_equal(weights.load(tmp_path / "half.npz")["w"], half["w"].float().numpy())


def test_bfloat16_files_are_widened(tmp_path):
    torch = pytest.importorskip("torch")
    values = torch.tensor([1.0, -2.5, 3.0e38]).bfloat16()
    raw = values.view(torch.int16).numpy().tobytes()
    (tmp_path / "w.safetensors").write_bytes(header({"w": tensor(0, 6, (3,), "BF16")}, raw))
    numpy.testing.assert_array_equal(weights.load(tmp_path / "w.safetensors")["w"], values.float().numpy())


def header(entries, data=b""):
    text = entries if isinstance(entries, bytes) else json.dumps(entries).encode()
    return struct.pack("<Q", len(text)) + text + data


def tensor(begin, end, shape=(1,), dtype="F32"):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


# As the safetensors package's own attacks: offsets that overlap, leave holes, lie outside, shapes that lie, ...
HOSTILE = {
    "overlap": header({"a": tensor(0, 4), "b": tensor(2, 6)}, bytes(6)),
    "same": header({"a": tensor(0, 4), "b": tensor(0, 4)}, bytes(4)),
    "hole": header({"a": tensor(0, 4), "b": tensor(8, 12)}, bytes(12)),
    "short": header({"a": tensor(0, 8, (2,))}, bytes(4)),
    "behind": header({"a": tensor(0, 4)}, bytes(8)),
    "shape": header({"a": tensor(0, 4, (2,))}, bytes(4)),
    "huge shape": header({"a": tensor(0, 4, (2**62,))}, bytes(4)),
    "overflow": header({"a": tensor(0, 4, (2**32, 2**32))}, bytes(4)),
    "negative": header({"a": tensor(0, 4, (-1,))}, bytes(4)),
    "backwards": header({"a": tensor(4, 0)}, bytes(4)),
    "twice": header(b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}', bytes(4)),
    "no UTF-8": header(b'{"\xff":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}', bytes(4)),
    "type": header({"a": tensor(0, 4, (1,), "F33")}, bytes(4)),
    "list": header([1, 2]),
    "metadata": header({"__metadata__": {"a": 1}}),
    "long header": struct.pack("<Q", 2**63) + b"{}",
    "deep": header(b"[" * 100000),
    "nothing": b"",
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_safetensors_are_refused(tmp_path, name):
    path = tmp_path / "w.safetensors"
    path.write_bytes(HOSTILE[name])
    with pytest.raises(turbolstm.Error, match="w.safetensors"):
        weights.load(path)


def npz(**members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name.replace("_", "."), content)
    return buffer.getvalue()


def npy(text, data=b"", version=b"\x01\x00"):
    text = text.encode() + b"\n"
    return b"\x93NUMPY" + version + struct.pack("<H", len(text)) + text + data


PLAIN = "{'descr': '<f4', 'fortran_order': False, 'shape': %s}"


def pickled():
    buffer = io.BytesIO()
    numpy.savez(buffer, a=numpy.array([{}], dtype=object))
    return buffer.getvalue()


BROKEN_NPZ = {
    "no archive": b"PK no archive",
    "empty": b"",
    "half": npz(a_npy=npy(PLAIN % "(2,)", bytes(8)))[:60],
    "objects": pickled(),
    "shape": npz(a_npy=npy(PLAIN % "(3,)", bytes(8))),
    "huge shape": npz(a_npy=npy(PLAIN % f"({2**62},)", bytes(8))),
    "negative": npz(a_npy=npy(PLAIN % "(-2,)", bytes(8))),
    "code": npz(a_npy=npy("__import__('os').abort()")),
    "no header": npz(a_npy=b"\x93NUMPY"),
    "version": npz(a_npy=npy(PLAIN % "(2,)", bytes(8), b"\x09\x00")),
    "other file": npz(a_txt=b"text"),
    "more": npz(a_npy=npy(PLAIN % "(1,)", bytes(8))),
}


@pytest.mark.parametrize("name", BROKEN_NPZ)
def test_hostile_npz_are_refused(tmp_path, name):
    path = tmp_path / "w.npz"
    path.write_bytes(BROKEN_NPZ[name])
    with pytest.raises(turbolstm.Error, match="w.npz"):
        weights.load(path)


def test_flipped_bytes_never_crash(tmp_path):
    """Either an error of ours or arrays."""
    draw = numpy.random.default_rng(3)
    for suffix in (".safetensors", ".npz"):
        weights.save(tmp_path / f"w{suffix}", ARRAYS)
        whole = (tmp_path / f"w{suffix}").read_bytes()
        for _ in range(200):
            broken = bytearray(whole)
            for place in draw.integers(0, len(whole), draw.integers(1, 4)):
                broken[place] = draw.integers(0, 256)
            (tmp_path / f"b{suffix}").write_bytes(broken)
            try:
                weights.load(tmp_path / f"b{suffix}")
            except turbolstm.Error:
                pass


def test_pickles_that_run_code_are_refused(tmp_path):
    pytest.importorskip("torch")
    import pickle

    class Attack:
        def __reduce__(self):
            return (open, (str(tmp_path / "made"), "w"))

    (tmp_path / "w.pt").write_bytes(pickle.dumps({"a": Attack()}))
    with pytest.raises(turbolstm.Error, match="w.pt"):
        weights.load(tmp_path / "w.pt")
    assert not (tmp_path / "made").exists()


def test_errors_name_what_is_wrong(tmp_path):
    with pytest.raises(ValueError, match=r"ends in '.h5', wants .safetensors, .npz"):
        weights.load(tmp_path / "w.h5")
    with pytest.raises(ValueError, match="'a' is a dict"):
        weights.save(tmp_path / "w.npz", {"a": {}})
    with pytest.raises(turbolstm.Error, match="'a' is a .*bool"):
        weights.save(tmp_path / "w.safetensors", {"a": numpy.array([True])})
    with pytest.raises(ValueError, match="only safetensors"):
        weights.save(tmp_path / "w.npz", ARRAYS, {"a": "b"})
    with pytest.raises(OSError, match="absent"):
        weights.load(tmp_path / "absent.npz")
