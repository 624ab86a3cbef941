#pragma once

#include <nanobind/nanobind.h>

#include <string_view>

namespace turbolstm {

// Text of a file, which may be no UTF-8: such bytes become \xff.
inline nanobind::object TextOf(std::string_view text) {
  return nanobind::steal(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "backslashreplace"));
}

}  // namespace turbolstm
