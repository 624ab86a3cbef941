// Layers of any cell as ONNX's Scan: the state is carried, x and which steps are valid are scanned.
#include <algorithm>

#include "base/error.h"
#include "exchange/onnx/onnx_layers.h"
#include "graph/passes/lower_transforms.h"
#include "io/onnx/onnx_values.h"

namespace turbolstm {
namespace {

constexpr auto kFloat = onnx::TensorProto::FLOAT;
constexpr auto kBool = onnx::TensorProto::BOOL;

// The equations of a cell over one step.
struct CellGraph {
  explicit CellGraph(const OnnxLayer& layer) {
    CellOptions size = layer.options.size;
    size.input = layer.input;
    CellPlace place;
    place.zoneout = layer.options.zoneout;
    Builder builder(&graph);
    const Value x = builder.Input("x", Domain::kStep, {layer.input});
    result = FindCell(layer.options.cell).Build(&builder, x, size, place);
    LowerTransforms(&graph);
  }

  Graph graph;
  CellResult result;
};

class ScanDirection {
 public:
  ScanDirection(OnnxWriter& writer, const OnnxLayer& layer, int64_t direction)
      : writer_(writer), layer_(layer), direction_(direction), cell_(layer) {}

  struct Results {
    std::string y;                   // [T, B, S]
    std::vector<std::string> final;  // [B, delay * n] by state
  };

  // initial: [B, delay * n] by state. valid: [T, B, 1].
  Results Add(const std::string& x, const std::string& valid,
              const std::vector<std::string>& initial) {
    OnnxWriter::Attributes attributes = {OnnxInteger("num_scan_inputs", 2)};
    if (layer_.reversed(direction_)) {
      attributes.push_back(OnnxIntegers("scan_input_directions", {1, 1}));
      attributes.push_back(OnnxIntegers("scan_output_directions", {1}));
    }
    onnx::AttributeProto body;
    body.set_name("body");
    body.set_type(onnx::AttributeProto::GRAPH);
    BuildBody(body.mutable_g());
    attributes.push_back(std::move(body));
    std::vector<std::string> operands = initial;
    operands.push_back(x);
    operands.push_back(valid);
    const int states = static_cast<int>(cell_.result.states.size());
    std::vector<std::string> results = writer_.AddMany("Scan", operands, states + 1, attributes);
    const std::string y = results.back();
    results.pop_back();
    return {y, results};
  }

 private:
  void BuildBody(onnx::GraphProto* proto) {
    OnnxWriter body = writer_.Body(proto);
    const std::string prefix =
        fmt::format("{}_l{}_{}_", layer_.name, layer_.layer, direction_);  // unique in the model
    proto->set_name(prefix + "step");
    OnnxValues values(&body, cell_.graph, [this](const Node& node) {
      // The cell was built without a place, so its parameters are called by what they are.
      return writer_.Floats(
          layer_.Parameter(node.name, direction_), node.features,
          ValuesOf(layer_.values, layer_.Parameter(node.name, direction_), node.features));
    });
    for (const CellState& state : cell_.result.states) {
      const std::string name = prefix + state.name;
      body.Input(name, kFloat, {"B", state.delay * state.size});
      values.AddHistory(state.carried.id(), state.delay, name);
    }
    body.Input(prefix + "x", kFloat, {"B", layer_.input});
    values.AddInput(cell_.graph.Find("x"), prefix + "x");
    const std::string valid = prefix + "valid";
    body.Input(valid, kBool, {"B", 1});
    for (const CellState& state : cell_.result.states) {
      const std::string old = prefix + state.name;
      std::string next = values.Of(state.carried.id());
      if (state.delay > 1) {
        next = body.Concat({body.Slice(old, 1, state.size, state.delay * state.size), next}, 1);
      }
      body.Output(body.Add("Where", {valid, next, old}), old + "_next", kFloat,
                  {"B", state.delay * state.size});
    }
    const NodeId output = cell_.result.output.id();
    body.Output(body.Add("Where", {valid, values.Of(output), body.Number(0)}), prefix + "y", kFloat,
                {"B", cell_.graph.node(output).features[0]});
  }

  OnnxWriter& writer_;
  const OnnxLayer& layer_;
  int64_t direction_;
  CellGraph cell_;
};

// [T, B, 1]: whether a step is within its sequence.
std::string ValidSteps(OnnxWriter& writer, const std::string& x, const std::string& lengths) {
  return writer.Unsqueeze(ValidMask(writer, x, lengths), 2);
}

// [B, n] of zeros.
std::string Zeros(OnnxWriter& writer, const std::string& x, int64_t n) {
  const std::string batch = writer.Slice(writer.Add("Shape", {x}), 0, 1, 2);
  return writer.Add("Expand", {writer.Number(0), writer.Concat({batch, writer.Integers({n})}, 0)});
}

}  // namespace

std::string ValidMask(OnnxWriter& writer, const std::string& x, const std::string& lengths) {
  // Range wants scalars: axis 0 of a shape, squeezed.
  const std::string steps = writer.Add(
      "Squeeze", {writer.Slice(writer.Add("Shape", {x}), 0, 0, 1), writer.Integers({0})});
  const std::string zero = writer.Add("Squeeze", {writer.Integers({0}), writer.Integers({0})});
  const std::string one = writer.Add("Squeeze", {writer.Integers({1}), writer.Integers({0})});
  const std::string time = writer.Unsqueeze(writer.Add("Range", {zero, steps, one}), 1);
  const std::string ends = writer.Unsqueeze(writer.Cast(lengths, onnx::TensorProto::INT64), 0);
  return writer.Add("Less", {time, ends});
}

std::vector<std::pair<std::string, int64_t>> StatesOfCell(const RecurrentOptions& options) {
  const CellGraph cell({options, {}, "", 0, options.size.input});
  std::vector<std::pair<std::string, int64_t>> states;
  for (const CellState& state : cell.result.states) {
    states.emplace_back(state.name, state.delay * state.size);
  }
  return states;
}

OnnxLayerOutputs AddScanLayer(OnnxWriter& writer, const OnnxLayer& layer,
                              const OnnxLayerInputs& inputs) {
  const auto states = StatesOfCell(layer.options);
  const std::string valid = ValidSteps(writer, inputs.x, inputs.sequence_lens);
  std::vector<std::string> ys;
  std::vector<std::vector<std::string>> finals(states.size());
  for (int64_t d = 0; d < layer.directions(); ++d) {
    std::vector<std::string> initial;
    for (const auto& [name, n] : states) {
      const auto given = inputs.initial.find(name);
      initial.push_back(given == inputs.initial.end()
                            ? Zeros(writer, inputs.x, n)
                            : writer.Add("Squeeze", {writer.Slice(given->second, 0, d, d + 1),
                                                     writer.Integers({0})}));
    }
    const auto [y, final] = ScanDirection(writer, layer, d).Add(inputs.x, valid, initial);
    ys.push_back(y);
    for (size_t i = 0; i < states.size(); ++i) {
      finals[i].push_back(writer.Unsqueeze(final[i], 0));
    }
  }
  OnnxLayerOutputs outputs;
  outputs.y = writer.Concat(ys, 2);
  for (size_t i = 0; i < states.size(); ++i) {
    outputs.final[states[i].first] = writer.Concat(finals[i], 0);
  }
  return outputs;
}

}  // namespace turbolstm
