// Layers as ONNX's LSTM, GRU and RNN.
#include <optional>

#include "base/error.h"
#include "exchange/onnx/onnx_layers.h"

namespace turbolstm {
namespace {

// How a cell of ours is called in ONNX, and where its row blocks stand there.
struct Equivalent {
  std::string_view cell;
  std::string_view op;
  std::vector<int64_t> order;  // block k of ONNX's rows is this block of ours
  std::vector<std::string> activations;
  bool peephole = false;
  bool linear_before_reset = false;
};

const Equivalent* FindEquivalent(std::string_view cell) {
  static const std::vector<Equivalent> known = {
      // i o f c from i f g o
      {"lstm", "LSTM", {0, 3, 1, 2}, {}, false, false},
      {"peephole_lstm", "LSTM", {0, 3, 1, 2}, {}, true, false},
      // z r h from r z n
      {"gru", "GRU", {1, 0, 2}, {}, false, true},
      {"gru_original", "GRU", {1, 0, 2}, {}, false, false},
      {"rnn_tanh", "RNN", {0}, {"Tanh"}, false, false},
      {"rnn_relu", "RNN", {0}, {"Relu"}, false, false},
  };
  for (const Equivalent& one : known) {
    if (one.cell == cell) return &one;
  }
  return nullptr;
}

const std::vector<int64_t> kPeepholeOrder = {0, 2, 1};  // i o f from i f o

class OperatorLayer {
 public:
  OperatorLayer(OnnxWriter& writer, const OnnxLayer& layer)
      : writer_(writer),
        layer_(layer),
        size_(layer.options.size),
        as_(*FindEquivalent(layer.options.cell)),
        gates_(std::ssize(as_.order)) {}

  OnnxLayerOutputs Add(const OnnxLayerInputs& inputs) {
    const int64_t H = size_.hidden;
    const bool lstm = as_.op == "LSTM";
    std::vector<std::string> operands = {
        inputs.x,
        Weights("weight_ih", {gates_ * H, layer_.input}, as_.order),
        Weights("weight_hh", {gates_ * H, H}, as_.order),
        size_.bias ? Biases() : "",
        inputs.sequence_lens,
        Initial(inputs, "h"),
    };
    if (lstm) operands.push_back(Initial(inputs, "c"));
    if (as_.peephole) operands.push_back(Weights("weight_ph", {3 * H}, kPeepholeOrder));
    while (operands.back().empty()) operands.pop_back();
    const std::vector<std::string> results =
        writer_.AddMany(as_.op, operands, lstm ? 3 : 2, Attributes());
    OnnxLayerOutputs outputs;
    // [T, D, B, H] -> [T, B, D * H]
    outputs.y = writer_.Reshape(writer_.Transpose(results[0], {0, 2, 1, 3}),
                                {0, 0, layer_.directions() * H});
    outputs.final["h"] = results[1];
    if (lstm) outputs.final["c"] = results[2];
    return outputs;
  }

 private:
  OnnxWriter::Attributes Attributes() const {
    OnnxWriter::Attributes attributes = {OnnxInteger("hidden_size", size_.hidden)};
    const bool both = layer_.options.bidirectional;
    attributes.push_back(OnnxText("direction", both                 ? "bidirectional"
                                               : layer_.reversed(0) ? "reverse"
                                                                    : "forward"));
    if (!as_.activations.empty()) {
      std::vector<std::string> activations;
      for (int64_t d = 0; d < layer_.directions(); ++d) {
        activations.insert(activations.end(), as_.activations.begin(), as_.activations.end());
      }
      attributes.push_back(OnnxTexts("activations", activations));
    }
    if (size_.clip) attributes.push_back(OnnxFloat("clip", static_cast<float>(*size_.clip)));
    if (size_.coupled_gates) attributes.push_back(OnnxInteger("input_forget", 1));
    if (as_.linear_before_reset) attributes.push_back(OnnxInteger("linear_before_reset", 1));
    return attributes;
  }

  static std::string Initial(const OnnxLayerInputs& inputs, const std::string& state) {
    const auto found = inputs.initial.find(state);
    return found == inputs.initial.end() ? "" : found->second;
  }

  // Appends the row blocks of one parameter in ONNX's order.
  void AppendBlocks(const std::string& name, const std::vector<int64_t>& shape,
                    const std::vector<int64_t>& order, std::vector<float>* to) const {
    const std::span<const float> from = ValuesOf(layer_.values, name, shape);
    const size_t block = from.size() / order.size();
    for (const int64_t k : order) {
      const auto part = from.subspan(static_cast<size_t>(k) * block, block);
      to->insert(to->end(), part.begin(), part.end());
    }
  }

  // [D, shape...]
  std::string Weights(const std::string& what, std::vector<int64_t> shape,
                      const std::vector<int64_t>& order) {
    std::vector<float> all;
    for (int64_t d = 0; d < layer_.directions(); ++d) {
      AppendBlocks(layer_.Parameter(what, d), shape, order, &all);
    }
    shape.insert(shape.begin(), layer_.directions());
    return writer_.Floats(layer_.Parameter(what, 0), shape, all);
  }

  // [D, 2 * G * H]
  std::string Biases() {
    const int64_t rows = gates_ * size_.hidden;
    std::vector<float> all;
    for (int64_t d = 0; d < layer_.directions(); ++d) {
      for (const char* what : {"bias_ih", "bias_hh"}) {
        AppendBlocks(layer_.Parameter(what, d), {rows}, as_.order, &all);
      }
    }
    return writer_.Floats(layer_.Parameter("bias", 0), {layer_.directions(), 2 * rows}, all);
  }

  OnnxWriter& writer_;
  const OnnxLayer& layer_;
  const CellOptions& size_;
  const Equivalent& as_;
  int64_t gates_;
};

}  // namespace

bool HasOnnxOperator(const RecurrentOptions& options) {
  const Equivalent* const as = FindEquivalent(options.cell);
  if (as == nullptr || options.zoneout > 0) return false;
  // ONNX clips the inputs of all activations, but ONNX Runtime not the cell on its way to h.
  return as->op != "LSTM" || !options.size.clip;
}

OnnxLayerOutputs AddOperatorLayer(OnnxWriter& writer, const OnnxLayer& layer,
                                  const OnnxLayerInputs& inputs) {
  return OperatorLayer(writer, layer).Add(inputs);
}

}  // namespace turbolstm
