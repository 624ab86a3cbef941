#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"

namespace turbolstm {

// One tensor of a file: `bytes` holds the elements in row-major order, little-endian.
struct NamedTensor {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<int64_t> shape;  // empty: a scalar
  std::vector<std::byte> bytes;

  bool operator==(const NamedTensor&) const = default;
};

// The content of a safetensors file (huggingface/safetensors, "Format").
struct SafetensorsFile {
  std::vector<NamedTensor> tensors;  // in the order of their data
  std::map<std::string, std::string> metadata;

  // Null when absent.
  const NamedTensor* Find(std::string_view name) const;
  // Throws Error when absent.
  const NamedTensor& At(std::string_view name) const;

  bool operator==(const SafetensorsFile&) const = default;
};

// Reads a whole file. The header is checked against the file's size before a tensor is allocated:
// no duplicate key, no hole, no overlap, nothing behind the last tensor. Throws Error naming the
// file, the tensor, what came and what was wanted.
SafetensorsFile ReadSafetensors(const std::filesystem::path& path);

// The same from memory; `source` stands for the file in errors.
SafetensorsFile ParseSafetensors(std::span<const std::byte> content, std::string_view source);

// Replaces the file atomically (see AtomicFile). Wider element types are stored first, so that
// every tensor is aligned; tensors of equal width keep their order. The shape and the size of
// `bytes` of each tensor must agree.
void WriteSafetensors(const std::filesystem::path& path, const SafetensorsFile& file);

}  // namespace turbolstm
