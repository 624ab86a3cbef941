"""Fast training of recurrent networks described as graphs with delays."""

from ._core import DeviceInfo, __version__, devices

__all__ = ["DeviceInfo", "__version__", "devices"]
