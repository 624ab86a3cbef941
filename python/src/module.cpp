#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "base/error.h"
#include "bind.h"
#include "turbolstm/version.h"

NB_MODULE(_core, module) {
  // What waits for a backward pass when the interpreter ends is no fault.
  nanobind::set_leak_warnings(false);
  module.attr("__version__") = turbolstm::Version();
  // What a user can mend is a ValueError with the library's own words.
  nanobind::exception<turbolstm::Error>(module, "Error", PyExc_ValueError).doc() =
      "An error of the library: \"[operator or file] what came, what was wanted\".";
  turbolstm::BindDevices(module);
  turbolstm::BindRecurrent(module);
  turbolstm::BindExchange(module);
  turbolstm::BindTrain(module);
}
