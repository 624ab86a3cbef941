#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace turbolstm {

enum class DType : uint8_t { kFloat32, kFloat64, kBFloat16, kInt32, kInt64, kFloat16 };

// Bytes of one element.
size_t SizeOf(DType dtype);

// "float32", "float64", "bfloat16", "int32", "int64", "float16".
std::string_view Name(DType dtype);

}  // namespace turbolstm
