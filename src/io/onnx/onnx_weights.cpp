#include "io/onnx/onnx_weights.h"

#include <map>

#include "base/error.h"
#include "io/onnx/recurrent_proto.h"

namespace turbolstm {
namespace {

using Shape = std::vector<int64_t>;

// The constants of a model by name.
class Constants {
 public:
  Constants(const onnx::GraphProto& graph, std::string_view source) : source_(source) {
    for (const onnx::TensorProto& tensor : graph.initializer()) Note(tensor.name(), tensor);
    for (const onnx::NodeProto& node : graph.node()) {
      if (node.op_type() != "Constant" || node.output_size() != 1) continue;
      for (const onnx::AttributeProto& attribute : node.attribute()) {
        if (attribute.name() == "value") Note(node.output(0), attribute.t());
      }
    }
  }

  OnnxTensor Get(const std::string& name, std::string_view what) const {
    const auto found = constants_.find(name);
    TL_CHECK(found != constants_.end(), "[{}] {} is '{}', which is no constant of the file",
             source_, what, name);
    OnnxTensor tensor = OnnxTensorOf(*found->second, fmt::format("{}: '{}'", source_, name));
    TL_CHECK(tensor.dtype == DType::kFloat32, "[{}] {} '{}' is {}, wants float32", source_, what,
             name, Name(tensor.dtype));
    return tensor;
  }

 private:
  void Note(const std::string& name, const onnx::TensorProto& tensor) {
    TL_CHECK(constants_.emplace(name, &tensor).second, "[{}] the constant '{}' is given twice",
             source_, name);
  }

  std::string_view source_;
  std::map<std::string, const onnx::TensorProto*> constants_;
};

void CheckShape(const OnnxTensor& tensor, const Shape& wanted, std::string_view what,
                std::string_view source) {
  TL_CHECK(tensor.shape == wanted, "[{}] {} has shape {}, wants {}", source, what,
           ShapeText(tensor.shape), ShapeText(wanted));
}

OnnxRecurrentWeights WeightsOf(const OnnxRecurrentNode& node, const Constants& constants,
                               std::string_view source) {
  const int64_t D = node.directions();
  const int64_t H = node.hidden_size;
  const int64_t rows = GateCount(node.op) * H;
  const auto has = [&](size_t i) { return i < node.inputs.size() && !node.inputs[i].empty(); };
  OnnxRecurrentWeights weights{
      node, constants.Get(node.inputs[1], "W"), constants.Get(node.inputs[2], "R"), {}, {}};
  const Shape& shape = weights.weight_ih.shape;
  TL_CHECK(shape.size() == 3 && shape[2] > 0, "[{}] W has shape {}, wants [{}, {}, I]", source,
           ShapeText(shape), D, rows);
  CheckShape(weights.weight_ih, {D, rows, shape[2]}, "W", source);
  CheckShape(weights.weight_hh, {D, rows, H}, "R", source);
  if (has(3)) {
    weights.bias = constants.Get(node.inputs[3], "B");
    CheckShape(*weights.bias, {D, 2 * rows}, "B", source);
  }
  if (has(7)) {
    weights.peephole = constants.Get(node.inputs[7], "P");
    CheckShape(*weights.peephole, {D, 3 * H}, "P", source);
  }
  return weights;
}

}  // namespace

std::vector<OnnxRecurrentWeights> ParseOnnxRecurrentWeights(std::string_view bytes,
                                                            std::string_view source) {
  const onnx::ModelProto model = ParseOnnxModel(bytes, source);
  const Constants constants(model.graph(), source);
  std::vector<OnnxRecurrentWeights> all;
  for (const onnx::NodeProto& proto : model.graph().node()) {
    const bool own = proto.domain().empty() || proto.domain() == "ai.onnx";
    const std::string& op = proto.op_type();
    if (!own || (op != "RNN" && op != "GRU" && op != "LSTM")) continue;
    const std::string place = fmt::format("{}: {} '{}'", source, op, proto.name());
    all.push_back(WeightsOf(OnnxRecurrentNodeOf(proto, place), constants, place));
  }
  return all;
}

}  // namespace turbolstm
