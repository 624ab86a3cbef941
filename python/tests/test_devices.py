import os

import turbolstm


def test_version_is_the_project_s():
    assert turbolstm.__version__ == os.environ["TL_EXPECTED_VERSION"]


def test_devices_begin_with_the_cpu():
    first = turbolstm.devices()[0]
    assert (first.kind, first.index) == ("cpu", 0)
    assert first.name
    assert first.memory_bytes > 2**20
    assert repr(first) == f"<cpu:0 {first.name}>"
