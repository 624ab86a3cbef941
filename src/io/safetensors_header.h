#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"

namespace turbolstm {

// The largest header the format allows, in bytes.
inline constexpr uint64_t kLargestSafetensorsHeader = 100'000'000;

// Where one tensor lies: bytes [begin, end) behind the header.
struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<int64_t> shape;
  uint64_t begin = 0;
  uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // ascending and gapless, ending at the data's size
  std::map<std::string, std::string> metadata;
};

// Checks everything but the data itself; `data_size` is the number of bytes behind the header.
SafetensorsHeader ParseSafetensorsHeader(std::string_view json, uint64_t data_size,
                                         std::string_view source);

// Bytes of a tensor. Throws Error when a dimension is negative or the product exceeds 64 bits.
uint64_t SafetensorsByteSize(DType dtype, const std::vector<int64_t>& shape,
                             std::string_view source, std::string_view tensor);

// The format's name of a type: "F32", "F64", "BF16", "I32", "I64".
std::string_view SafetensorsName(DType dtype);

}  // namespace turbolstm
