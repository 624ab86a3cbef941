#include "exchange/onnx_export.h"

#include <limits>

#include "base/error.h"
#include "exchange/onnx/onnx_layers.h"
#include "turbolstm/version.h"

namespace turbolstm {
namespace {

constexpr auto kFloat = onnx::TensorProto::FLOAT;
constexpr int64_t kOpset = 14;
constexpr int64_t kIrVersion = 7;  // the first that knows opset 14

void Begin(onnx::ModelProto* model, const OnnxMetadata& metadata) {
  model->set_ir_version(kIrVersion);
  model->set_producer_name("turbolstm");
  model->set_producer_version(Version());
  model->add_opset_import()->set_version(kOpset);
  model->mutable_graph()->set_name("turbolstm");
  for (const auto& [key, value] : metadata) {
    onnx::StringStringEntryProto& entry = *model->add_metadata_props();
    entry.set_key(key);
    entry.set_value(value);
  }
}

std::string Bytes(const onnx::ModelProto& model) {
  constexpr size_t kMost = std::numeric_limits<int32_t>::max();
  TL_CHECK(model.ByteSizeLong() <= kMost,
           "[onnx] the model takes {} bytes, a file holds at most {}", model.ByteSizeLong(), kMost);
  return model.SerializeAsString();
}

// Features of a direction's output.
int64_t OutputSize(const RecurrentOptions& options) {
  return options.size.projection > 0 ? options.size.projection : options.size.hidden;
}

// All layers one after the other.
class Stack {
 public:
  Stack(OnnxWriter& writer, const RecurrentOptions& options, std::string name,
        const ParameterValues& values)
      : writer_(writer), options_(options), name_(std::move(name)), values_(values) {}

  // Of the last layer. initial: by state [L * D, B, n], or empty for zeros.
  OnnxLayerOutputs Add(std::string x, const std::string& lengths,
                       const std::map<std::string, std::string>& initial = {}) {
    const int64_t D = options_.bidirectional ? 2 : 1;
    int64_t input = options_.size.input;
    OnnxLayerOutputs outputs;
    for (int64_t i = 0; i < options_.layers; ++i) {
      const OnnxLayer layer{options_, values_, name_, i, input};
      OnnxLayerInputs inputs{x, lengths, {}};
      for (const auto& [state, value] : initial) {
        inputs.initial[state] = writer_.Slice(value, 0, i * D, (i + 1) * D);
      }
      outputs = HasOnnxOperator(options_) ? AddOperatorLayer(writer_, layer, inputs)
                                          : AddScanLayer(writer_, layer, inputs);
      for (const auto& [state, value] : outputs.final) finals_[state].push_back(value);
      if (options_.residual && i > 0) outputs.y = writer_.Add("Add", {outputs.y, x});
      x = outputs.y;
      input = D * OutputSize(options_);
    }
    return outputs;
  }

  // Of all layers: [L * D, B, n].
  std::string Final(const std::string& state) { return writer_.Concat(finals_.at(state), 0); }

 private:
  OnnxWriter& writer_;
  const RecurrentOptions& options_;
  std::string name_;
  const ParameterValues& values_;
  std::map<std::string, std::vector<std::string>> finals_;
};

// What the last layer puts out at the last valid step of each direction's walk: [B, D * S].
std::string LastStep(OnnxWriter& writer, const OnnxLayerOutputs& outputs,
                     const RecurrentOptions& options) {
  const int64_t D = options.bidirectional ? 2 : 1;
  std::string last = outputs.final.at("h");
  const auto states = StatesOfCell(options);
  for (const auto& [state, n] : states) {
    const int64_t S = OutputSize(options);
    if (state == "h" && n > S) last = writer.Slice(last, 2, n - S, n);  // the newest of a history
  }
  return writer.Reshape(writer.Transpose(last, {1, 0, 2}), {0, D * OutputSize(options)});
}

// y [T, B, n], zero where padded -> [B, n].
std::string MeanOfSteps(OnnxWriter& writer, const std::string& y, const std::string& lengths) {
  const std::string sum =
      writer.Add("ReduceSum", {y, writer.Integers({0})}, {OnnxInteger("keepdims", 0)});
  const std::string count = writer.Add("Max", {writer.Cast(lengths, kFloat), writer.Number(1)});
  return writer.Add("Div", {sum, writer.Unsqueeze(count, 1)});
}

std::string MaxOfSteps(OnnxWriter& writer, const std::string& y, const std::string& lengths) {
  const std::string valid = writer.Unsqueeze(ValidMask(writer, y, lengths), 2);
  const std::string least = writer.Number(std::numeric_limits<float>::lowest());
  const std::string most = writer.Add("ReduceMax", {writer.Add("Where", {valid, y, least})},
                                      {OnnxIntegers("axes", {0}), OnnxInteger("keepdims", 0)});
  // An empty sequence has no maximum, and gives zeros.
  const std::string some = writer.Add("Greater", {writer.Cast(lengths, kFloat), writer.Number(0)});
  return writer.Add("Where", {writer.Unsqueeze(some, 1), most, writer.Number(0)});
}

std::string Pooled(OnnxWriter& writer, const ClassifierOptions& options,
                   const OnnxLayerOutputs& outputs, const std::string& lengths) {
  switch (options.pooling) {
    case Pooling::kLast:
      return LastStep(writer, outputs, options.recurrent);
    case Pooling::kMean:
      return MeanOfSteps(writer, outputs.y, lengths);
    case Pooling::kMax:
      return MaxOfSteps(writer, outputs.y, lengths);
  }
  Fail("[onnx] unknown pooling {}", static_cast<int>(options.pooling));
}

}  // namespace

std::span<const float> ValuesOf(const ParameterValues& values, const std::string& name,
                                const std::vector<int64_t>& shape) {
  const std::span<const float> found = values(name);
  TL_CHECK(std::ssize(found) == ElementCount(shape), "[onnx] '{}' has {} elements, wants [{}]",
           name, found.size(), fmt::join(shape, ", "));
  return found;
}

bool OnnxLayer::reversed(int64_t direction) const {
  if (options.bidirectional) return direction == 1;
  return !options.directions.empty() &&
         options.directions[static_cast<size_t>(layer)] == Direction::kReverse;
}

std::string OnnxLayer::Parameter(const std::string& what, int64_t direction) const {
  return fmt::format("{}.{}_l{}{}", name, what, layer, direction == 1 ? "_reverse" : "");
}

std::string OnnxOfLayers(const RecurrentOptions& options, const std::string& name, bool batch_first,
                         const ParameterValues& values, const OnnxMetadata& metadata) {
  onnx::ModelProto model;
  Begin(&model, metadata);
  OnnxWriter writer(model.mutable_graph());
  const int64_t D = options.bidirectional ? 2 : 1;
  const OnnxAxis first = batch_first ? "B" : "T";
  const OnnxAxis second = batch_first ? "T" : "B";
  writer.Input("x", kFloat, {first, second, options.size.input});
  writer.Input("sequence_lens", onnx::TensorProto::INT32, {"B"});
  std::map<std::string, std::string> initial;
  const auto states = StatesOfCell(options);
  for (const auto& [state, n] : states) {
    writer.Input(state + "_0", kFloat, {options.layers * D, "B", n});
    initial[state] = state + "_0";
  }
  Stack stack(writer, options, name, values);
  const std::string x = batch_first ? writer.Transpose("x", {1, 0, 2}) : "x";
  const std::string y = stack.Add(x, "sequence_lens", initial).y;
  writer.Output(batch_first ? writer.Transpose(y, {1, 0, 2}) : y, "y", kFloat,
                {first, second, D * OutputSize(options)});
  for (const auto& [state, n] : states) {
    writer.Output(stack.Final(state), state + "_n", kFloat, {options.layers * D, "B", n});
  }
  return Bytes(model);
}

std::string OnnxOfClassifier(const ClassifierOptions& options, const ParameterValues& values,
                             const OnnxMetadata& metadata) {
  TL_CHECK(!options.recurrent.residual,
           "[onnx] a classifier with residual connections cannot be exported");
  onnx::ModelProto model;
  Begin(&model, metadata);
  OnnxWriter writer(model.mutable_graph());
  RecurrentOptions recurrent = options.recurrent;
  recurrent.size.input = options.embedding;
  const auto parameter = [&](const std::string& name, const std::vector<int64_t>& shape) {
    return writer.Floats(name, shape, ValuesOf(values, name, shape));
  };
  writer.Input("tokens", onnx::TensorProto::INT64, {"T", "B"});
  writer.Input("sequence_lens", onnx::TensorProto::INT32, {"B"});
  const std::string x = writer.Add(
      "Gather", {parameter("embedding.weight", {options.vocabulary, options.embedding}), "tokens"});
  Stack stack(writer, recurrent, recurrent.cell, values);
  const OnnxLayerOutputs outputs = stack.Add(x, "sequence_lens");
  const std::string pooled = Pooled(writer, options, outputs, "sequence_lens");
  const int64_t features = (recurrent.bidirectional ? 2 : 1) * OutputSize(recurrent);
  const std::string logits =
      writer.Add("Gemm",
                 {pooled, parameter("head.weight", {options.classes, features}),
                  parameter("head.bias", {options.classes})},
                 {OnnxInteger("transB", 1)});
  writer.Output(logits, "logits", kFloat, {"B", options.classes});
  writer.Output(writer.Add("Softmax", {logits}, {OnnxInteger("axis", 1)}), "probabilities", kFloat,
                {"B", options.classes});
  return Bytes(model);
}

}  // namespace turbolstm
