#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "base/error.h"
#include "bind.h"
#include "text.h"
#include "turbolstm/version.h"

namespace {

// Words of a broken file may be no UTF-8; Python would then show no words at all.
void RaiseWithAnyBytes(const std::exception_ptr& thrown, void* type) {
  try {
    std::rethrow_exception(thrown);
  } catch (const turbolstm::Error& error) {
    const nanobind::object words = turbolstm::TextOf(error.what());
    if (words.is_valid()) PyErr_SetObject(static_cast<PyObject*>(type), words.ptr());
  }
}

}  // namespace

NB_MODULE(_core, module) {
  // What waits for a backward pass when the interpreter ends is no fault.
  nanobind::set_leak_warnings(false);
  module.attr("__version__") = turbolstm::Version();
  // What a user can mend is a ValueError with the library's own words.
  nanobind::exception<turbolstm::Error> error(module, "Error", PyExc_ValueError);
  error.doc() = "An error of the library: \"[operator or file] what came, what was wanted\".";
  nanobind::register_exception_translator(RaiseWithAnyBytes, error.ptr());  // asked first
  turbolstm::BindDevices(module);
  turbolstm::BindRecurrent(module);
  turbolstm::BindExchange(module);
  turbolstm::BindEquations(module);
  turbolstm::BindPlan(module);
  turbolstm::BindTrain(module);
  turbolstm::BindWeights(module);
  turbolstm::BindDeviceNetwork(module);
}
