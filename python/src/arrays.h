#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <span>
#include <string>
#include <type_traits>

namespace turbolstm {

// "float64 array of shape [2, 3] on cpu, strided": what came, for errors.
template <typename Array>
std::string Describe(const Array& array) {
  const nanobind::dlpack::dtype type = array.dtype();
  const char* kind = "unknown";
  switch (static_cast<nanobind::dlpack::dtype_code>(type.code)) {
    case nanobind::dlpack::dtype_code::Int:
      kind = "int";
      break;
    case nanobind::dlpack::dtype_code::UInt:
      kind = "uint";
      break;
    case nanobind::dlpack::dtype_code::Float:
      kind = "float";
      break;
    case nanobind::dlpack::dtype_code::Bfloat:
      kind = "bfloat";
      break;
    case nanobind::dlpack::dtype_code::Complex:
      kind = "complex";
      break;
    case nanobind::dlpack::dtype_code::Bool:
      kind = "bool";
      break;
    default:
      break;
  }
  std::string text = kind + std::to_string(type.bits) + " array of shape [";
  for (size_t i = 0; i < array.ndim(); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(array.shape(i));
  }
  text += array.device_type() == nanobind::device::cpu::value ? "] on the CPU" : "] on a device";
  return text;
}

template <typename Array>
bool IsContiguous(const Array& array) {
  if (array.size() == 0) return true;
  int64_t stride = 1;
  for (size_t i = array.ndim(); i-- > 0;) {
    if (array.shape(i) > 1 && array.stride(i) != stride) return false;
    stride *= static_cast<int64_t>(array.shape(i));
  }
  return true;
}

// The elements of an array in row-major order, where they lie. T: float, int32_t or uint8_t; const
// for what is only read. Throws ValueError naming `what` for another type, device or layout.
template <typename T, typename Array>
std::span<T> Elements(const std::string& what, const Array& array) {
  using Plain = std::remove_const_t<T>;
  const bool right_type =
      array.dtype() == nanobind::dtype<Plain>() ||
      (std::is_same_v<Plain, uint8_t> && array.dtype() == nanobind::dtype<bool>());
  const char* wanted = std::is_same_v<Plain, float>     ? "float32"
                       : std::is_same_v<Plain, int32_t> ? "int32"
                                                        : "bool or uint8";
  if (!right_type || array.device_type() != nanobind::device::cpu::value || !IsContiguous(array)) {
    const std::string text = "[" + what + "] got a " + Describe(array) +
                             (IsContiguous(array) ? "" : ", not contiguous") +
                             ", wants a contiguous " + wanted + " array on the CPU";
    throw nanobind::value_error(text.c_str());
  }
  return {static_cast<T*>(array.data()), array.size()};
}

}  // namespace turbolstm
