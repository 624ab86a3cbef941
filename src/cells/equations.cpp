#include "cells/equations.h"

#include <algorithm>

#include "base/error.h"

namespace turbolstm {
namespace {

// How tightly the top of an expression binds; a looser operand gets parentheses.
enum class Binding { kSum, kQuotient, kTerm, kProduct, kUnary, kAtom };

struct Text {
  std::string text;
  Binding binding = Binding::kAtom;
};

class Printer {
 public:
  Printer(const Graph& graph, const SizeLetters& letters) : graph_(graph), letters_(letters) {}

  std::string Run() const {
    std::string lines;
    for (const NodeId id : NamedInOrder()) {
      lines += fmt::format("{} = {}\n", graph_.node(id).name, Expression(id).text);
    }
    return lines;
  }

 private:
  // Operands are added before their readers, but for states: those are complete with the value
  // that they are defined by.
  std::vector<NodeId> NamedInOrder() const {
    const auto complete = [&](NodeId id) {
      const Node& node = graph_.node(id);
      return IsState(node) ? std::max(id, node.inputs[0].source) : id;
    };
    std::vector<NodeId> named;
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (!graph_.node(id).name.empty() && Traits(graph_.node(id).op).arity != 0) {
        named.push_back(id);
      }
    }
    std::ranges::stable_sort(named, {}, complete);
    return named;
  }

  static bool IsState(const Node& node) {
    return node.op == Op::kIdentity && node.inputs.size() == 1 && !node.name.empty();
  }

  // A value where it is read: its name, or what it is.
  Text Operand(const Edge& edge) const {
    const Node& node = graph_.node(edge.source);
    const Text value = node.name.empty() ? Expression(edge.source) : Text{node.name};
    if (edge.delay == 0) return value;
    return {fmt::format("{}[t-{}]", Wrapped(value, Binding::kAtom), edge.delay)};
  }

  static std::string Wrapped(const Text& text, Binding least) {
    return text.binding < least ? fmt::format("({})", text.text) : text.text;
  }
  std::string Operand(const Edge& edge, Binding least) const {
    return Wrapped(Operand(edge), least);
  }

  Text Expression(NodeId id) const {
    const Node& node = graph_.node(id);
    const std::vector<Edge>& in = node.inputs;
    switch (node.op) {
      case Op::kConstant:
        return {fmt::format("{:g}", node.attributes.number)};
      case Op::kIdentity:
        return Operand(in[0]);
      case Op::kAdd:
        return {Joined(in, " + ", Binding::kSum), Binding::kSum};
      case Op::kSub:
        return {Operand(in[0], Binding::kSum) + " - " + Operand(in[1], Binding::kQuotient),
                Binding::kSum};
      case Op::kMul:
        return {Joined(in, " * ", Binding::kTerm), Binding::kTerm};
      case Op::kDiv:
        if (IsNormalised(node)) return {fmt::format("normalize({})", Operand(Centred(node)).text)};
        return {Operand(in[0], Binding::kTerm) + " / " + Operand(in[1], Binding::kProduct),
                Binding::kQuotient};
      case Op::kNeg:
        return {fmt::format("-{}", Operand(in[0], Binding::kUnary)), Binding::kUnary};
      case Op::kMatMul:
        return {Operand(in[0], Binding::kProduct) + " @ " + Operand(in[1], Binding::kUnary),
                Binding::kProduct};
      case Op::kSlice:
        return {fmt::format("{}[{}:{}]", Operand(in[0], Binding::kAtom),
                            Size(node.attributes.begin),
                            Size(node.attributes.begin + node.attributes.size))};
      default:
        return {fmt::format("{}({})", Traits(node.op).name, Joined(in, ", ", Binding::kSum))};
    }
  }

  std::string Joined(const std::vector<Edge>& edges, const char* between, Binding least) const {
    std::vector<std::string> parts;
    for (const Edge& edge : edges) parts.push_back(Operand(edge, least));
    return fmt::format("{}", fmt::join(parts, between));
  }

  // (x - share * row_sum(x)) / sqrt(..), as LayerNorm builds it: spelt out nobody could read it.
  bool IsNormalised(const Node& quotient) const {
    const Node& centred = graph_.node(quotient.inputs[0].source);
    if (graph_.node(quotient.inputs[1].source).op != Op::kSqrt || centred.op != Op::kSub) {
      return false;
    }
    const Node& mean = graph_.node(centred.inputs[1].source);
    if (mean.op != Op::kMul || mean.inputs.size() != 2) return false;
    const Node& sum = graph_.node(mean.inputs[1].source);
    return sum.op == Op::kRowSum && sum.inputs[0].source == centred.inputs[0].source;
  }
  const Edge& Centred(const Node& quotient) const {
    return graph_.node(quotient.inputs[0].source).inputs[0];
  }

  std::string Size(int64_t size) const {
    for (const auto& [unit, letter] : letters_) {
      if (size == 0 || unit == 0 || size % unit != 0) continue;
      return size == unit ? letter : fmt::format("{}{}", size / unit, letter);
    }
    return std::to_string(size);
  }

  const Graph& graph_;
  const SizeLetters& letters_;
};

}  // namespace

std::string PrintEquations(const Graph& graph, const SizeLetters& letters) {
  return Printer(graph, letters).Run();
}

std::string PrintEquations(const Cell& cell) {
  // Sizes of which none is a multiple of another.
  constexpr int64_t kInput = 5;
  constexpr int64_t kHidden = 64;
  constexpr int64_t kProjection = 7;
  CellOptions options;
  options.input = kInput;
  options.hidden = kHidden;
  options.projection = cell.projects ? kProjection : 0;
  options.heads = 2;
  Graph graph;
  Builder builder(&graph);
  cell.Build(&builder, builder.Input("x", Domain::kStep, {kInput}), options);
  return PrintEquations(graph, {{kHidden, "H"}});
}

}  // namespace turbolstm
