#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"

namespace onnx {
class TensorProto;
}

namespace turbolstm {

// A tensor of an ONNX file. float32 has its elements in `floats`, int32 in `integers`; other types
// are refused.
struct OnnxTensor {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<int64_t> shape;
  std::vector<float> floats;      // row-major, float32 only
  std::vector<int32_t> integers;  // row-major, int32 only
};

// Reads a file that holds one TensorProto. Throws Error naming the file if it cannot be read, is no
// TensorProto, has another element type, keeps its data elsewhere, or has more or fewer bytes than
// its shape says.
OnnxTensor ReadOnnxTensor(const std::filesystem::path& path);

// The same from bytes in memory; `source` is what errors call them.
OnnxTensor ParseOnnxTensor(std::string_view bytes, std::string_view source);

// "[2, 3]"
std::string ShapeText(const std::vector<int64_t>& shape);

}  // namespace turbolstm
