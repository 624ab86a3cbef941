import importlib.metadata

import pytest
import turbolstm
from turbolstm._core import DeviceNetwork


def test_version_is_that_of_the_package():
    assert turbolstm.__version__.count(".") == 2
    try:
        installed = importlib.metadata.version("turbolstm")
    except importlib.metadata.PackageNotFoundError:  # run from a build folder
        return
    assert turbolstm.__version__ == installed


def test_devices_begin_with_the_cpu():
    first = turbolstm.devices()[0]
    assert (first.kind, first.index) == ("cpu", 0)
    assert first.name
    assert first.memory_bytes > 2**20
    assert repr(first) == f"<cpu:0 {first.name}>"


def test_a_gpu_that_is_not_there():
    if any(device.kind == "cuda" for device in turbolstm.devices()):
        pytest.skip("there is one")
    with pytest.raises(turbolstm.Error, match=r"\[cuda\] (no device answers|this program was built without CUDA)"):
        DeviceNetwork("lstm", 3, 4)
