import importlib.metadata

import turbolstm


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
