#include "io/onnx/onnx_node.h"

#include <onnx.pb.h>

#include <array>
#include <cmath>
#include <set>

#include "base/error.h"
#include "base/read_file.h"
#include "io/onnx/parse_proto.h"
#include "io/onnx/recurrent_proto.h"

namespace turbolstm {
namespace {

using Attribute = onnx::AttributeProto;

constexpr int64_t kOldestOpset = 7;  // before it RNN operators had other attributes and inputs
constexpr int64_t kLargestHidden = 1 << 24;

// One attribute with the file and node to blame.
struct AttributeReader {
  const Attribute& attribute;
  std::string_view source;

  void Want(Attribute::AttributeType type) const {
    TL_CHECK(attribute.type() == type, "[{}] attribute {} has type {}, wants {}", source,
             attribute.name(), Attribute::AttributeType_Name(attribute.type()),
             Attribute::AttributeType_Name(type));
  }
  int64_t Integer(int64_t least, int64_t most) const {
    Want(Attribute::INT);
    TL_CHECK(attribute.i() >= least && attribute.i() <= most,
             "[{}] attribute {} is {}, wants {} to {}", source, attribute.name(), attribute.i(),
             least, most);
    return attribute.i();
  }
  float PositiveFloat() const {
    Want(Attribute::FLOAT);
    TL_CHECK(std::isfinite(attribute.f()) && attribute.f() > 0,
             "[{}] attribute {} is {}, wants a positive number", source, attribute.name(),
             attribute.f());
    return attribute.f();
  }
  std::vector<float> Floats() const {
    Want(Attribute::FLOATS);
    return {attribute.floats().begin(), attribute.floats().end()};
  }
  std::vector<std::string> Strings() const {
    Want(Attribute::STRINGS);
    return {attribute.strings().begin(), attribute.strings().end()};
  }
};

OnnxRecurrentOp ParseOp(const onnx::NodeProto& node, std::string_view source) {
  TL_CHECK(node.domain().empty() || node.domain() == "ai.onnx",
           "[{}] node is of domain {}, wants ONNX's own", source, node.domain());
  if (node.op_type() == "RNN") return OnnxRecurrentOp::kRnn;
  if (node.op_type() == "GRU") return OnnxRecurrentOp::kGru;
  TL_CHECK(node.op_type() == "LSTM", "[{}] node is a {}, wants RNN, GRU or LSTM", source,
           node.op_type());
  return OnnxRecurrentOp::kLstm;
}

OnnxDirection ParseDirection(const AttributeReader& reader) {
  reader.Want(Attribute::STRING);
  const std::string& text = reader.attribute.s();
  if (text == "forward") return OnnxDirection::kForward;
  if (text == "reverse") return OnnxDirection::kReverse;
  TL_CHECK(text == "bidirectional",
           "[{}] attribute direction is {:?}, wants forward, reverse or bidirectional",
           reader.source, text);
  return OnnxDirection::kBidirectional;
}

void ReadAttribute(const AttributeReader& reader, OnnxRecurrentNode& node) {
  const std::string& name = reader.attribute.name();
  if (name == "hidden_size") {
    node.hidden_size = reader.Integer(1, kLargestHidden);
  } else if (name == "direction") {
    node.direction = ParseDirection(reader);
  } else if (name == "activations") {
    node.activations = reader.Strings();
  } else if (name == "activation_alpha") {
    node.activation_alpha = reader.Floats();
  } else if (name == "activation_beta") {
    node.activation_beta = reader.Floats();
  } else if (name == "clip") {
    node.clip = reader.PositiveFloat();
  } else if (name == "layout") {
    node.batch_first = reader.Integer(0, 1) == 1;
  } else if (name == "input_forget" && node.op == OnnxRecurrentOp::kLstm) {
    node.input_forget = reader.Integer(0, 1) == 1;
  } else if (name == "linear_before_reset" && node.op == OnnxRecurrentOp::kGru) {
    node.linear_before_reset = reader.Integer(0, 1) == 1;
  } else {
    Fail("[{}] attribute {:?} is not one of this operator's", reader.source, name);
  }
}

std::vector<std::string> DefaultActivations(OnnxRecurrentOp op) {
  if (op == OnnxRecurrentOp::kRnn) return {"Tanh"};
  if (op == OnnxRecurrentOp::kGru) return {"Sigmoid", "Tanh"};
  return {"Sigmoid", "Tanh", "Tanh"};
}

void CheckActivations(OnnxRecurrentNode& node, std::string_view source) {
  static const std::set<std::string> kKnown = {
      "Affine",  "Elu",      "HardSigmoid", "LeakyRelu", "Relu",           "ScaledTanh",
      "Sigmoid", "Softplus", "Softsign",    "Tanh",      "ThresholdedRelu"};
  const std::vector<std::string> defaults = DefaultActivations(node.op);
  const size_t wanted = defaults.size() * static_cast<size_t>(node.directions());
  if (node.activations.empty()) {
    while (node.activations.size() < wanted) {
      node.activations.insert(node.activations.end(), defaults.begin(), defaults.end());
    }
  }
  TL_CHECK(node.activations.size() == wanted, "[{}] has {} activations, wants {}", source,
           node.activations.size(), wanted);
  for (const std::string& activation : node.activations) {
    TL_CHECK(kKnown.contains(activation), "[{}] unknown activation {:?}", source, activation);
  }
}

void CheckNames(const OnnxRecurrentNode& node, std::string_view source) {
  const bool lstm = node.op == OnnxRecurrentOp::kLstm;
  const size_t most_inputs = lstm ? 8 : 6;
  const size_t most_outputs = lstm ? 3 : 2;
  TL_CHECK(node.inputs.size() >= 3 && node.inputs.size() <= most_inputs,
           "[{}] has {} inputs, wants 3 to {}", source, node.inputs.size(), most_inputs);
  TL_CHECK(node.outputs.size() <= most_outputs, "[{}] has {} outputs, wants at most {}", source,
           node.outputs.size(), most_outputs);
  constexpr std::array kRequired = {"X", "W", "R"};
  for (size_t i = 0; i < kRequired.size(); ++i) {
    TL_CHECK(!node.inputs[i].empty(), "[{}] input {} is missing", source, kRequired[i]);
  }
}

void CheckOpset(const onnx::ModelProto& model, std::string_view source) {
  for (const auto& opset : model.opset_import()) {
    if (!opset.domain().empty() && opset.domain() != "ai.onnx") continue;
    TL_CHECK(opset.version() >= kOldestOpset, "[{}] uses opset {}, wants {} or newer", source,
             opset.version(), kOldestOpset);
    return;
  }
  Fail("[{}] names no ONNX opset", source);
}

}  // namespace

int64_t GateCount(OnnxRecurrentOp op) {
  switch (op) {
    case OnnxRecurrentOp::kRnn:
      return 1;
    case OnnxRecurrentOp::kGru:
      return 3;
    case OnnxRecurrentOp::kLstm:
      return 4;
  }
  Fail("[onnx] unknown operator {}", static_cast<int>(op));
}

OnnxRecurrentNode OnnxRecurrentNodeOf(const onnx::NodeProto& proto, std::string_view source) {
  OnnxRecurrentNode node;
  node.name = proto.name();
  node.op = ParseOp(proto, source);
  std::set<std::string> seen;
  for (const Attribute& attribute : proto.attribute()) {
    TL_CHECK(seen.insert(attribute.name()).second, "[{}] attribute {:?} is given twice", source,
             attribute.name());
    ReadAttribute({attribute, source}, node);
  }
  TL_CHECK(node.hidden_size > 0, "[{}] attribute hidden_size is missing", source);
  node.inputs.assign(proto.input().begin(), proto.input().end());
  node.outputs.assign(proto.output().begin(), proto.output().end());
  CheckActivations(node, source);
  CheckNames(node, source);
  return node;
}

onnx::ModelProto ParseOnnxModel(std::string_view bytes, std::string_view source) {
  auto model = ParseProto<onnx::ModelProto>(bytes, source, "ONNX model");
  CheckOpset(model, source);
  return model;
}

OnnxRecurrentNode ParseOnnxRecurrentNode(std::string_view bytes, std::string_view source) {
  const onnx::ModelProto model = ParseOnnxModel(bytes, source);
  TL_CHECK(model.graph().node_size() == 1, "[{}] has {} nodes, wants one RNN, GRU or LSTM", source,
           model.graph().node_size());
  return OnnxRecurrentNodeOf(model.graph().node(0), source);
}

OnnxRecurrentNode ReadOnnxRecurrentNode(const std::filesystem::path& path) {
  return ParseOnnxRecurrentNode(ReadFile(path), path.string());
}

}  // namespace turbolstm
