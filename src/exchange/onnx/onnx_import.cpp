#include "exchange/onnx_import.h"

#include <cmath>

#include "base/error.h"
#include "base/read_file.h"
#include "io/onnx/onnx_weights.h"

namespace turbolstm {
namespace {

// Block k of our rows stands at this block of ONNX's.
std::vector<int64_t> GateOrder(OnnxRecurrentOp op) {
  switch (op) {
    case OnnxRecurrentOp::kLstm:
      return {0, 2, 3, 1};  // i f g o from i o f c
    case OnnxRecurrentOp::kGru:
      return {1, 0, 2};  // r z n from z r h
    case OnnxRecurrentOp::kRnn:
      return {0};
  }
  Fail("[onnx] unknown operator {}", static_cast<int>(op));
}

const std::vector<int64_t> kPeepholeOrder = {0, 2, 1};  // i f o from i o f

// The node's activations when both directions have the same, else an error.
std::vector<std::string> ActivationsOf(const OnnxRecurrentNode& node, const std::string& place) {
  const size_t each = node.activations.size() / static_cast<size_t>(node.directions());
  const std::vector<std::string> first(node.activations.begin(),
                                       node.activations.begin() + static_cast<int64_t>(each));
  for (size_t i = 0; i < node.activations.size(); ++i) {
    TL_CHECK(node.activations[i] == first[i % each],
             "[{}] its directions have different activations ({}), which none of our cells has",
             place, fmt::join(node.activations, ", "));
  }
  return first;
}

std::string CellOf(const OnnxRecurrentNode& node, bool peephole, const std::string& place) {
  const std::vector<std::string> activations = ActivationsOf(node, place);
  const auto refuse = [&](std::string_view wanted) {
    Fail("[{}] activations {} are in none of our cells, wants {}", place,
         fmt::join(activations, ", "), wanted);
  };
  if (node.op == OnnxRecurrentOp::kRnn) {
    if (activations[0] == "Tanh") return "rnn_tanh";
    if (activations[0] != "Relu") refuse("Tanh or Relu");
    return "rnn_relu";
  }
  if (node.op == OnnxRecurrentOp::kGru) {
    if (activations != std::vector<std::string>{"Sigmoid", "Tanh"}) refuse("Sigmoid, Tanh");
    return node.linear_before_reset ? "gru" : "gru_original";
  }
  if (activations != std::vector<std::string>{"Sigmoid", "Tanh", "Tanh"}) {
    refuse("Sigmoid, Tanh, Tanh");
  }
  return peephole ? "peephole_lstm" : "lstm";
}

class LayerImport {
 public:
  LayerImport(const OnnxRecurrentWeights& from, std::string_view source)
      : from_(from), node_(from.node), place_(fmt::format("{}: '{}'", source, node_.name)) {}

  ImportedLayer Import() {
    layer_.name = node_.name;
    layer_.batch_first = node_.batch_first;
    RecurrentSpec& spec = layer_.spec;
    spec.cell = CellOf(node_, from_.peephole.has_value(), place_);
    spec.input = from_.weight_ih.shape[2];
    spec.hidden = node_.hidden_size;
    spec.bias = from_.bias.has_value();
    if (node_.clip) spec.clip = *node_.clip;
    spec.coupled_gates = node_.input_forget;
    spec.bidirectional = node_.directions() == 2;
    if (node_.direction == OnnxDirection::kReverse) spec.reversed = {true};
    for (int64_t d = 0; d < node_.directions(); ++d) ImportDirection(d);
    return std::move(layer_);
  }

 private:
  void ImportDirection(int64_t d) {
    const std::vector<int64_t> order = GateOrder(node_.op);
    const int64_t H = node_.hidden_size;
    const int64_t rows = std::ssize(order) * H;
    const std::string suffix = d == 0 ? "_l0" : "_l0_reverse";
    const int64_t I = layer_.spec.input;
    Take("weight_ih" + suffix, {rows, I}, from_.weight_ih, d * rows * I, order);
    Take("weight_hh" + suffix, {rows, H}, from_.weight_hh, d * rows * H, order);
    if (from_.bias) {
      Take("bias_ih" + suffix, {rows}, *from_.bias, 2 * d * rows, order);
      Take("bias_hh" + suffix, {rows}, *from_.bias, (2 * d + 1) * rows, order);
    }
    if (from_.peephole) {
      Take("weight_ph" + suffix, {3 * H}, *from_.peephole, d * 3 * H, kPeepholeOrder);
    }
  }

  void Take(const std::string& name, std::vector<int64_t> shape, const OnnxTensor& tensor,
            int64_t begin, const std::vector<int64_t>& order) {
    ImportedParameter& parameter = layer_.parameters[name];
    int64_t count = 1;
    for (const int64_t size : shape) count *= size;
    const int64_t block = count / std::ssize(order);
    for (const int64_t k : order) {
      const auto first = tensor.floats.begin() + begin + k * block;
      parameter.values.insert(parameter.values.end(), first, first + block);
    }
    parameter.shape = std::move(shape);
  }

  const OnnxRecurrentWeights& from_;
  const OnnxRecurrentNode& node_;
  std::string place_;
  ImportedLayer layer_;
};

}  // namespace

std::vector<ImportedLayer> ImportOnnxLayers(std::string_view bytes, std::string_view source) {
  std::vector<ImportedLayer> layers;
  for (const OnnxRecurrentWeights& weights : ParseOnnxRecurrentWeights(bytes, source)) {
    layers.push_back(LayerImport(weights, source).Import());
  }
  return layers;
}

std::vector<ImportedLayer> ImportOnnxLayers(const std::filesystem::path& path) {
  return ImportOnnxLayers(ReadFile(path), path.string());
}

}  // namespace turbolstm
