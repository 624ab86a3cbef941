#include "io/onnx/onnx_tensor.h"

#include <onnx.pb.h>

#include <bit>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/read_file.h"
#include "io/onnx/parse_proto.h"
#include "io/onnx/recurrent_proto.h"

namespace turbolstm {
namespace {

static_assert(std::endian::native == std::endian::little, "ONNX raw data is little-endian");

// The number of elements, counted without overflow.
int64_t CountElements(const std::vector<int64_t>& shape, std::string_view source) {
  int64_t count = 1;
  bool empty = false;
  for (const int64_t size : shape) {
    TL_CHECK(size >= 0, "[{}] shape {} has a negative size", source, ShapeText(shape));
    if (size == 0) {
      empty = true;
      continue;
    }
    TL_CHECK(count <= std::numeric_limits<int64_t>::max() / 8 / size, "[{}] shape {} is too large",
             source, ShapeText(shape));
    count *= size;
  }
  return empty ? 0 : count;
}

// Elements from raw_data when it is there, else from the typed field; both at once are refused.
template <typename T, typename Field>
std::vector<T> Elements(const onnx::TensorProto& proto, const Field& field,
                        const std::vector<int64_t>& shape, std::string_view source) {
  const int64_t wanted = CountElements(shape, source);
  if (!proto.has_raw_data()) {
    TL_CHECK(field.size() == wanted, "[{}] has {} elements, its shape {} wants {}", source,
             field.size(), ShapeText(shape), wanted);
    return {field.begin(), field.end()};
  }
  TL_CHECK(field.empty(), "[{}] has both raw and typed data", source);
  const std::string& raw = proto.raw_data();
  TL_CHECK(raw.size() == static_cast<size_t>(wanted) * sizeof(T),
           "[{}] has {} bytes of data, its shape {} wants {}", source, raw.size(), ShapeText(shape),
           static_cast<size_t>(wanted) * sizeof(T));
  std::vector<T> elements(static_cast<size_t>(wanted));
  if (!elements.empty()) std::memcpy(elements.data(), raw.data(), raw.size());
  return elements;
}

}  // namespace

std::string ShapeText(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

OnnxTensor OnnxTensorOf(const onnx::TensorProto& proto, std::string_view source) {
  TL_CHECK(proto.data_location() != onnx::TensorProto::EXTERNAL && proto.external_data_size() == 0,
           "[{}] keeps its data in another file, wants it inside", source);
  TL_CHECK(!proto.has_segment(), "[{}] is a segment of a tensor, wants a whole one", source);
  OnnxTensor tensor;
  tensor.name = proto.name();
  tensor.shape = {proto.dims().begin(), proto.dims().end()};
  if (proto.data_type() == onnx::TensorProto::FLOAT) {
    tensor.dtype = DType::kFloat32;
    tensor.floats = Elements<float>(proto, proto.float_data(), tensor.shape, source);
  } else if (proto.data_type() == onnx::TensorProto::INT32) {
    tensor.dtype = DType::kInt32;
    tensor.integers = Elements<int32_t>(proto, proto.int32_data(), tensor.shape, source);
  } else {
    const auto type = static_cast<onnx::TensorProto::DataType>(proto.data_type());
    Fail("[{}] has element type {} ({}), wants FLOAT or INT32", source, proto.data_type(),
         onnx::TensorProto::DataType_IsValid(type) ? onnx::TensorProto::DataType_Name(type)
                                                   : "unknown");
  }
  return tensor;
}

OnnxTensor ParseOnnxTensor(std::string_view bytes, std::string_view source) {
  return OnnxTensorOf(ParseProto<onnx::TensorProto>(bytes, source, "ONNX TensorProto"), source);
}

OnnxTensor ReadOnnxTensor(const std::filesystem::path& path) {
  return ParseOnnxTensor(ReadFile(path), path.string());
}

}  // namespace turbolstm
