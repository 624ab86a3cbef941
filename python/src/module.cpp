#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "bind.h"
#include "turbolstm/version.h"

NB_MODULE(_core, module) {
  module.attr("__version__") = turbolstm::Version();
  turbolstm::BindDevices(module);
}
