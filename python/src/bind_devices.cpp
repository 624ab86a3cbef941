#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bind.h"
#include "turbolstm/device.h"

namespace turbolstm {

void BindDevices(nanobind::module_& module) {
  nanobind::class_<DeviceInfo>(module, "DeviceInfo", "One device that work can run on.")
      .def_prop_ro("kind", [](const DeviceInfo& device) { return Name(device.kind); })
      .def_ro("index", &DeviceInfo::index)
      .def_ro("name", &DeviceInfo::name)
      .def_ro("memory_bytes", &DeviceInfo::memory_bytes)
      .def_ro("description", &DeviceInfo::description)
      .def("__repr__", [](const DeviceInfo& device) {
        return "<" + Name(device.kind) + ":" + std::to_string(device.index) + " " + device.name +
               ">";
      });
  module.def("devices", &ListDevices, "The devices of all backends, the CPU first.");
}

}  // namespace turbolstm
