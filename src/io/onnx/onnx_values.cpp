#include "io/onnx/onnx_values.h"

#include "base/error.h"

namespace turbolstm {
namespace {

// ONNX's operator of the same meaning, or empty.
std::string_view SameOperator(Op op) {
  switch (op) {
    case Op::kSub:
      return "Sub";
    case Op::kMul:
      return "Mul";
    case Op::kDiv:
      return "Div";
    case Op::kMax:
      return "Max";
    case Op::kMin:
      return "Min";
    case Op::kNeg:
      return "Neg";
    case Op::kSigmoid:
      return "Sigmoid";
    case Op::kTanh:
      return "Tanh";
    case Op::kRelu:
      return "Relu";
    case Op::kSoftplus:
      return "Softplus";
    case Op::kExp:
      return "Exp";
    case Op::kLog:
      return "Log";
    case Op::kSqrt:
      return "Sqrt";
    case Op::kReciprocal:
      return "Reciprocal";
    case Op::kAbs:
      return "Abs";
    case Op::kSin:
      return "Sin";
    case Op::kCos:
      return "Cos";
    case Op::kIdentity:
      return "Identity";
    default:
      return {};
  }
}

}  // namespace

std::string OnnxValues::Of(NodeId id) {
  const auto known = names_.find(id);
  if (known != names_.end()) return known->second;
  std::string name = Make(graph_.node(id));
  names_[id] = name;
  return name;
}

std::string OnnxValues::Read(const Edge& edge) {
  if (edge.delay == 0) return Of(edge.source);
  const auto history = histories_.find(edge.source);
  TL_CHECK(history != histories_.end() && edge.delay <= history->second.first,
           "[onnx] '{}' is read {} steps back, which is no state of the cell",
           graph_.Label(edge.source), edge.delay);
  const auto& [delay, name] = history->second;
  if (delay == 1) return name;
  const auto [known, added] = past_.try_emplace({edge.source, edge.delay});
  if (added) {
    const int64_t n = ElementCount(graph_.node(edge.source).features);
    const int64_t begin = (delay - edge.delay) * n;
    known->second = writer_.Slice(name, 1, begin, begin + n);
  }
  return known->second;
}

std::string OnnxValues::Make(const Node& node) {
  if (const std::string_view same = SameOperator(node.op); !same.empty()) {
    std::vector<std::string> operands;
    for (size_t i = 0; i < node.inputs.size(); ++i) operands.push_back(Operand(node, i));
    return writer_.Add(same, operands);
  }
  switch (node.op) {
    case Op::kParameter:
      return parameter_(node);
    case Op::kConstant:
      return writer_.Number(static_cast<float>(node.attributes.number));
    case Op::kRandomMask:
      return writer_.Number(static_cast<float>(node.attributes.mean));
    case Op::kAdd: {
      std::string sum = Operand(node, 0);
      for (size_t i = 1; i < node.inputs.size(); ++i) {
        sum = writer_.Add("Add", {sum, Operand(node, i)});
      }
      return sum;
    }
    case Op::kLogSigmoid:
      return writer_.Add("Neg",
                         {writer_.Add("Softplus", {writer_.Add("Neg", {Operand(node, 0)})})});
    case Op::kGreater:
      return writer_.Cast(writer_.Add("Greater", {Operand(node, 0), Operand(node, 1)}),
                          onnx::TensorProto::FLOAT);
    case Op::kSelect:
      return writer_.Add("Where", {writer_.Cast(Operand(node, 0), onnx::TensorProto::BOOL),
                                   Operand(node, 1), Operand(node, 2)});
    case Op::kMatMul:
      return MakeProduct(node);
    case Op::kSlice:
      return MakeSlice(node);
    case Op::kConcat:
      return MakeConcat(node);
    case Op::kRowSum:
      return MakeRowSum(node);
    default:
      Fail("[onnx] operator {} of '{}' cannot be exported", Traits(node.op).name, node.name);
  }
}

std::string OnnxValues::MakeProduct(const Node& node) {
  const std::string weight = Operand(node, 0);
  const std::string x = Operand(node, 1);
  const std::vector<int64_t>& shape = graph_.node(node.inputs[0].source).features;
  if (shape.size() == 2) return writer_.Add("Gemm", {x, weight}, {OnnxInteger("transB", 1)});
  // Block diagonal [heads, m, k]: each block times its part of x.
  const std::string parts = writer_.Reshape(x, {0, shape[0], shape[2], 1});
  return writer_.Reshape(writer_.Add("MatMul", {weight, parts}), {0, shape[0] * shape[1]});
}

std::string OnnxValues::MakeSlice(const Node& node) {
  const int64_t begin = node.attributes.begin;
  return writer_.Slice(Operand(node, 0), FirstAxis(node), begin, begin + node.attributes.size);
}

std::string OnnxValues::MakeConcat(const Node& node) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const bool is_static = graph_.node(node.inputs[i].source).domain == Domain::kStatic;
    TL_CHECK(is_static == (node.domain == Domain::kStatic),
             "[onnx] '{}' joins a parameter with other values, which cannot be exported",
             node.name);
    parts.push_back(Operand(node, i));
  }
  return writer_.Concat(parts, FirstAxis(node));
}

std::string OnnxValues::MakeRowSum(const Node& node) {
  const Node& operand = graph_.node(node.inputs[0].source);
  if (operand.domain == Domain::kStatic) {
    return writer_.Add("ReduceSum", {writer_.Reshape(Operand(node, 0), {-1})});
  }
  return writer_.Add("ReduceSum", {Operand(node, 0), writer_.Integers({1})});
}

}  // namespace turbolstm
