#include "io/onnx/onnx_case.h"

#include "base/error.h"

namespace turbolstm {
namespace {

// Reads the files of the named inputs (or outputs) in the node's order.
class CaseFiles {
 public:
  CaseFiles(const std::filesystem::path& directory, std::string_view kind,
            const std::vector<std::string>& names)
      : directory_(directory), kind_(kind), names_(names) {}

  // The tensor at `position` of the node, checked against dtype and shape; none if the node leaves
  // it out.
  std::optional<OnnxTensor> Read(size_t position, DType dtype, const std::vector<int64_t>& shape) {
    std::optional<OnnxTensor> tensor = ReadAnyShape(position, dtype);
    if (tensor) {
      TL_CHECK(tensor->shape == shape, "[{}] has shape {}, wants {}", last_path_,
               ShapeText(tensor->shape), ShapeText(shape));
    }
    return tensor;
  }

  std::optional<OnnxTensor> ReadAnyShape(size_t position, DType dtype) {
    if (position >= names_.size() || names_[position].empty()) return std::nullopt;
    last_path_ = (directory_ / fmt::format("{}_{}.pb", kind_, next_file_++)).string();
    OnnxTensor tensor = ReadOnnxTensor(last_path_);
    TL_CHECK(tensor.dtype == dtype, "[{}] has element type {}, wants {}", last_path_,
             Name(tensor.dtype), Name(dtype));
    tensor.name = names_[position];
    return tensor;
  }

  const std::string& last_path() const { return last_path_; }

 private:
  std::filesystem::path directory_;
  std::string_view kind_;
  const std::vector<std::string>& names_;
  size_t next_file_ = 0;
  std::string last_path_;
};

struct Sizes {
  int64_t T, B, I;
};

Sizes SizesOf(const OnnxTensor& x, bool batch_first, const std::string& path) {
  TL_CHECK(x.shape.size() == 3, "[{}] X has shape {}, wants three sizes", path, ShapeText(x.shape));
  return {x.shape[batch_first ? 1 : 0], x.shape[batch_first ? 0 : 1], x.shape[2]};
}

void CheckLengths(const OnnxTensor& lengths, int64_t steps, const std::string& path) {
  for (size_t b = 0; b < lengths.integers.size(); ++b) {
    TL_CHECK(lengths.integers[b] >= 0 && lengths.integers[b] <= steps,
             "[{}] length {} of row {} is outside 0 to {}", path, lengths.integers[b], b, steps);
  }
}

}  // namespace

OnnxRecurrentCase ReadOnnxRecurrentCase(const std::filesystem::path& directory) {
  OnnxRecurrentCase result;
  result.node = ReadOnnxRecurrentNode(directory / "model.onnx");
  const OnnxRecurrentNode& node = result.node;
  const std::filesystem::path data = directory / "test_data_set_0";
  CaseFiles inputs(data, "input", node.inputs);
  result.x = *inputs.ReadAnyShape(0, DType::kFloat32);
  const auto [T, B, I] = SizesOf(result.x, node.batch_first, inputs.last_path());
  const int64_t D = node.directions();
  const int64_t H = node.hidden_size;
  const int64_t rows = GateCount(node.op) * H;
  using Shape = std::vector<int64_t>;
  const Shape state = node.batch_first ? Shape{B, D, H} : Shape{D, B, H};
  const Shape sequence = node.batch_first ? Shape{B, T, D, H} : Shape{T, D, B, H};
  result.weight_ih = *inputs.Read(1, DType::kFloat32, {D, rows, I});
  result.weight_hh = *inputs.Read(2, DType::kFloat32, {D, rows, H});
  result.bias = inputs.Read(3, DType::kFloat32, {D, 2 * rows});
  result.lengths = inputs.Read(4, DType::kInt32, {B});
  if (result.lengths) CheckLengths(*result.lengths, T, inputs.last_path());
  result.initial_h = inputs.Read(5, DType::kFloat32, state);
  result.initial_c = inputs.Read(6, DType::kFloat32, state);
  result.peephole = inputs.Read(7, DType::kFloat32, {D, 3 * H});
  CaseFiles outputs(data, "output", node.outputs);
  result.y = outputs.Read(0, DType::kFloat32, sequence);
  result.final_h = outputs.Read(1, DType::kFloat32, state);
  result.final_c = outputs.Read(2, DType::kFloat32, state);
  return result;
}

}  // namespace turbolstm
