#include "plan/fusion.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/error.h"
#include "base/index.h"

namespace turbolstm {
namespace {

PointwiseOp ProgramOp(Op op) {
  switch (op) {
    case Op::kIdentity:
    case Op::kSlice:
      return PointwiseOp::kCopy;
    case Op::kAdd:
      return PointwiseOp::kAdd;
    case Op::kSub:
      return PointwiseOp::kSub;
    case Op::kMul:
      return PointwiseOp::kMul;
    case Op::kDiv:
      return PointwiseOp::kDiv;
    case Op::kMax:
      return PointwiseOp::kMax;
    case Op::kMin:
      return PointwiseOp::kMin;
    case Op::kNeg:
      return PointwiseOp::kNeg;
    case Op::kSigmoid:
      return PointwiseOp::kSigmoid;
    case Op::kTanh:
      return PointwiseOp::kTanh;
    case Op::kRelu:
      return PointwiseOp::kRelu;
    case Op::kSoftplus:
      return PointwiseOp::kSoftplus;
    case Op::kLogSigmoid:
      return PointwiseOp::kLogSigmoid;
    case Op::kExp:
      return PointwiseOp::kExp;
    case Op::kLog:
      return PointwiseOp::kLog;
    case Op::kSqrt:
      return PointwiseOp::kSqrt;
    case Op::kReciprocal:
      return PointwiseOp::kReciprocal;
    case Op::kAbs:
      return PointwiseOp::kAbs;
    case Op::kSin:
      return PointwiseOp::kSin;
    case Op::kCos:
      return PointwiseOp::kCos;
    case Op::kGreater:
      return PointwiseOp::kGreater;
    case Op::kSelect:
      return PointwiseOp::kSelect;
    default:
      Fail("[fusion] {} is not pointwise", Traits(op).name);
  }
}

// All of an operand: two that differ in anything are two inputs of a program.
using OperandKey =
    std::tuple<int32_t, int64_t, int64_t, int32_t, Direction, bool, int32_t, int64_t, int64_t>;

OperandKey KeyOf(const Operand& o) {
  return {o.view.buffer, o.view.column, o.view.width,  o.delay,      o.direction,
          o.adjoint,     o.init.buffer, o.init.column, o.init_stride};
}

// While a program is built, a value is an input, a constant or a result; ids follow at the end,
// when it is known how many there are of each.
struct Symbol {
  enum class Kind : uint8_t { kInput, kConstant, kResult } kind;
  int32_t index;
};

class ProgramBuilder {
 public:
  ProgramBuilder(const Graph& graph, const Uses& uses, const Storage& storage,
                 const std::vector<NodeId>& nodes)
      : graph_(graph), uses_(uses), storage_(storage), nodes_(nodes) {
    const Node& first = graph.node(nodes.front());
    domain_ = first.domain;
    width_ = RowWidth(first);
  }

  Stage Build() {
    for (const NodeId id : nodes_) symbol_of_[id] = Emit(graph_.node(id));
    stage_.kind = Stage::Kind::kPointwise;
    stage_.domain = domain_;
    stage_.name = Label();
    stage_.program.constants = constants_;
    for (const auto& [op, a, b, c] : code_) {
      stage_.program.code.push_back({op, Id(a), Id(b), Id(c)});
    }
    for (const NodeId id : nodes_) {
      const View& view = storage_.view_of[at(id)];
      if (view.buffer < 0) continue;
      stage_.program.outputs.push_back(Id(symbol_of_.at(id)));
      stage_.outputs.push_back(view);
      const auto mirrors = storage_.mirrors.find(id);
      if (mirrors == storage_.mirrors.end()) continue;
      for (const View& mirror : mirrors->second) {
        stage_.program.outputs.push_back(Id(symbol_of_.at(id)));
        stage_.outputs.push_back(mirror);
      }
    }
    stage_.kernel = CompilePointwise(stage_.program);
    return std::move(stage_);
  }

 private:
  struct Instruction {
    PointwiseOp op;
    Symbol a, b, c;
  };

  int32_t Id(const Symbol& symbol) const {
    const auto inputs = static_cast<int32_t>(stage_.inputs.size());
    switch (symbol.kind) {
      case Symbol::Kind::kInput:
        return symbol.index;
      case Symbol::Kind::kConstant:
        return inputs + symbol.index;
      case Symbol::Kind::kResult:
        break;
    }
    return inputs + static_cast<int32_t>(constants_.size()) + symbol.index;
  }

  std::string Label() const {
    std::string label;
    for (const NodeId id : nodes_) {
      const Node& node = graph_.node(id);
      if (node.name.empty() || storage_.view_of[at(id)].buffer < 0) continue;
      if (!label.empty()) label += ",";
      label += node.name;
    }
    return label.empty() ? graph_.Label(nodes_.back()) : label;
  }

  Symbol Emit(const Node& node) {
    std::vector<Symbol> operands;
    for (const Edge& edge : node.inputs) operands.push_back(Read(node, edge));
    if (node.op == Op::kAdd) return EmitSum(operands);
    if (node.op == Op::kSub && IsConstant(node.inputs[0], 1)) {
      return Add(PointwiseOp::kOneMinus, {operands[1]});
    }
    return Add(ProgramOp(node.op), operands);
  }

  bool IsConstant(const Edge& edge, double number) const {
    const Node& node = graph_.node(edge.source);
    return node.op == Op::kConstant && node.attributes.number == number;
  }

  Symbol EmitSum(const std::vector<Symbol>& operands) {
    if (operands.size() == 1) return Add(PointwiseOp::kCopy, operands);
    Symbol sum = operands[0];
    for (size_t i = 1; i < operands.size(); ++i) sum = Add(PointwiseOp::kAdd, {sum, operands[i]});
    return sum;
  }

  Symbol Add(PointwiseOp op, const std::vector<Symbol>& operands) {
    const Symbol none{Symbol::Kind::kInput, 0};
    const auto operand = [&](size_t i) { return i < operands.size() ? operands[i] : none; };
    code_.push_back({op, operand(0), operand(1), operand(2)});
    return {Symbol::Kind::kResult, static_cast<int32_t>(code_.size()) - 1};
  }

  Symbol Read(const Node& reader, const Edge& edge) {
    const Node& source = graph_.node(edge.source);
    if (source.op == Op::kConstant && storage_.view_of[at(edge.source)].buffer < 0) {
      return ConstantSymbol(source.attributes.number);
    }
    if (edge.delay == 0) {
      const auto internal = symbol_of_.find(edge.source);
      if (internal != symbol_of_.end()) return internal->second;
    }
    return InputSymbol(OperandOf(graph_, uses_, storage_, reader, edge));
  }

  Symbol ConstantSymbol(double number) {
    const auto it = std::find(constants_.begin(), constants_.end(), number);
    if (it == constants_.end()) {
      constants_.push_back(number);
      return {Symbol::Kind::kConstant, static_cast<int32_t>(constants_.size()) - 1};
    }
    return {Symbol::Kind::kConstant, static_cast<int32_t>(it - constants_.begin())};
  }

  Symbol InputSymbol(const Operand& operand) {
    const auto [it, added] =
        input_of_.try_emplace(KeyOf(operand), static_cast<int32_t>(stage_.inputs.size()));
    if (added) {
      stage_.inputs.push_back(operand);
      stage_.program.inputs.push_back(KindOf(operand));
    }
    return {Symbol::Kind::kInput, it->second};
  }

  InputKind KindOf(const Operand& operand) const {
    const Domain domain = storage_.buffers[static_cast<size_t>(operand.view.buffer)].domain;
    // Read with a delay, a Static value is not the same for all rows: some find nothing yet.
    const bool shared = domain == Domain::kStatic && operand.delay == 0;
    const bool narrow = operand.view.width == 1 && width_ != 1;
    if (shared && domain_ != Domain::kStatic) {
      return operand.view.width == 1 ? InputKind::kScalar : InputKind::kRowVector;
    }
    if (!narrow) return InputKind::kElement;
    return shared ? InputKind::kScalar : InputKind::kColumn;
  }

  const Graph& graph_;
  const Uses& uses_;
  const Storage& storage_;
  const std::vector<NodeId>& nodes_;
  Domain domain_;
  int64_t width_;
  Stage stage_;
  std::map<NodeId, Symbol> symbol_of_;
  std::map<OperandKey, int32_t> input_of_;
  std::vector<double> constants_;
  std::vector<Instruction> code_;
};

}  // namespace

Operand OperandOf(const Graph& graph, const Uses& uses, const Storage& storage, const Node& reader,
                  const Edge& edge) {
  ResolvedEdge read = uses.Resolve(reader, edge);
  if (reader.op == Op::kSlice && reader.domain != Domain::kStatic) {
    // A slice that is stored itself.
    read.column += reader.attributes.begin;
    read.init_column += reader.attributes.begin;
    read.width = reader.attributes.size;
  }
  const View& whole = storage.view_of[at(read.value)];
  TL_CHECK(whole.buffer >= 0, "[fusion] {} has no memory", graph.Label(read.value));
  Operand operand;
  operand.view = {whole.buffer, whole.column + read.column, read.width};
  operand.delay = read.delay;
  operand.direction = read.direction;
  operand.adjoint = read.adjoint;
  if (read.init != kNoNode) {
    const ResolvedEdge history = uses.Resolve(reader, {read.init});
    const View& init = storage.view_of[at(history.value)];
    operand.init = {init.buffer, init.column + history.column + read.init_column, read.width};
    operand.init_stride = read.init_stride;
  }
  return operand;
}

Stage FusePointwise(const Graph& graph, const Uses& uses, const Storage& storage,
                    const std::vector<NodeId>& nodes) {
  return ProgramBuilder(graph, uses, storage, nodes).Build();
}

Stage CopyStage(const Operand& from, const View& to, Domain domain) {
  Stage stage;
  stage.kind = Stage::Kind::kPointwise;
  stage.name = "copy";
  stage.domain = domain;
  stage.inputs = {from};
  stage.outputs = {to};
  stage.program.inputs = {InputKind::kElement};
  stage.program.code = {{PointwiseOp::kCopy, 0, 0, 0}};
  stage.program.outputs = {1};
  stage.kernel = CompilePointwise(stage.program);
  return stage;
}

}  // namespace turbolstm
