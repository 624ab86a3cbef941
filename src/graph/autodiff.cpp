#include "graph/autodiff.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/error.h"
#include "base/index.h"
#include "graph/shapes.h"

namespace turbolstm {
namespace {

// Whether the operator has a gradient with respect to this operand.
bool IsDifferentiable(Op op, size_t operand) {
  switch (op) {
    case Op::kGreater:
    case Op::kFirstMaxMask:
    case Op::kOneHot:
      return false;
    case Op::kSelect:
      return operand != 0;
    case Op::kGather:
    case Op::kCrossEntropy:
      return operand == 0;
    case Op::kScatterAdd:
      return operand == 1;
    default:
      return true;
  }
}

class Differentiator {
 public:
  explicit Differentiator(Graph* graph) : graph_(graph), count_(graph->size()) {}

  std::vector<NodeId> Run(const std::vector<Cotangent>& outputs, const std::vector<NodeId>& wrt) {
    FindNeeded(outputs, wrt);
    adjoint_.assign(at(count_), kNoNode);
    for (NodeId id = 0; id < count_; ++id) {
      if (needed_[at(id)]) adjoint_[at(id)] = AddAccumulator(id);
    }
    for (const Cotangent& output : outputs) {
      if (needed_[at(output.output)]) Accumulate(output.output, {output.cotangent});
    }
    for (NodeId id = 0; id < count_; ++id) {
      if (needed_[at(id)]) Propagate(id);
    }
    std::vector<NodeId> gradients;
    for (const NodeId id : wrt) gradients.push_back(needed_[at(id)] ? adjoint_[at(id)] : kNoNode);
    return gradients;
  }

 private:
  // Calls visit(source) for every operand the node has a gradient for.
  template <typename Visit>
  void ForEachDifferentiable(NodeId id, Visit visit) const {
    const Node& node = graph_->node(id);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!IsDifferentiable(node.op, i)) continue;
      visit(node.inputs[i].source);
      if (node.inputs[i].init != kNoNode) visit(node.inputs[i].init);
    }
  }

  // Needed: reached from an output against the edges, and from one of wrt along them.
  void FindNeeded(const std::vector<Cotangent>& outputs, const std::vector<NodeId>& wrt) {
    std::vector<std::vector<NodeId>> readers(at(count_));
    std::vector<bool> below(at(count_), false);
    std::vector<NodeId> stack;
    for (const Cotangent& output : outputs) stack.push_back(output.output);
    while (!stack.empty()) {
      const NodeId id = stack.back();
      stack.pop_back();
      if (below[at(id)]) continue;
      below[at(id)] = true;
      ForEachDifferentiable(id, [&](NodeId source) {
        readers[at(source)].push_back(id);
        stack.push_back(source);
      });
    }
    needed_.assign(at(count_), false);
    for (const NodeId id : wrt) {
      if (below[at(id)]) stack.push_back(id);
    }
    while (!stack.empty()) {
      const NodeId id = stack.back();
      stack.pop_back();
      if (needed_[at(id)]) continue;
      needed_[at(id)] = true;
      for (const NodeId reader : readers[at(id)]) stack.push_back(reader);
    }
  }

  NodeId AddAccumulator(NodeId id) {
    const Node& node = graph_->node(id);
    Node sum;
    sum.op = Op::kAdd;
    sum.domain = node.domain;
    sum.direction = Opposite(node.direction);
    sum.features = node.features;
    if (!node.name.empty()) {
      sum.name = "d." + node.name;
      if (graph_->Find(sum.name) != kNoNode) sum.name.clear();
    }
    return graph_->Add(std::move(sum));
  }

  void Accumulate(NodeId id, Edge contribution) {
    graph_->node(adjoint_[at(id)]).inputs.push_back(contribution);
  }

  NodeId Apply(Op op, std::vector<Edge> operands, Attributes attributes = {},
               Domain domain = Domain::kStatic) {
    return AddInferred(graph_, {op, domain, direction_, std::move(operands), attributes});
  }
  // Walks as the reader does: it reads the reader's delayed operands.
  NodeId ApplyAs(const Node& reader, Op op, std::vector<Edge> operands,
                 Attributes attributes = {}) {
    const NodeId id = Apply(op, std::move(operands), attributes);
    graph_->node(id).direction = reader.direction;
    return id;
  }
  NodeId Unary(Op op, NodeId a) { return Apply(op, {{a}}); }
  NodeId Binary(Op op, NodeId a, NodeId b) { return Apply(op, {{a}, {b}}); }
  NodeId Mul(NodeId a, NodeId b) { return Binary(Op::kMul, a, b); }
  NodeId Select(NodeId condition, NodeId a, NodeId b) {
    return Apply(Op::kSelect, {{condition}, {a}, {b}});
  }
  NodeId Constant(double number) { return Apply(Op::kConstant, {}, {.number = number}); }

  bool Wants(const Edge& edge) const { return edge.source < count_ && needed_[at(edge.source)]; }
  bool WantsInit(const Edge& edge) const { return edge.init != kNoNode && needed_[at(edge.init)]; }

  // Passes the adjoint of node `id` on to its operands.
  void Propagate(NodeId id) {
    const Node node = graph_->node(id);  // a copy: adding nodes moves the original
    direction_ = Opposite(node.direction);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const Edge& edge = node.inputs[i];
      TL_CHECK(edge.zoneout == 0 && edge.dropout == 0,
               "[autodiff] {} reads {} through a transform that is not lowered", graph_->Label(id),
               graph_->Label(edge.source));
      if (!IsDifferentiable(node.op, i) || !(Wants(edge) || WantsInit(edge))) continue;
      if (node.op == Op::kFinal) {
        PropagateFinal(node, adjoint_[at(id)]);
        continue;
      }
      PassToEdge(node, edge, Gradient(node, id, i));
    }
  }

  void PassToEdge(const Node& reader, const Edge& edge, NodeId gradient) {
    if (edge.delay == 0) {
      Accumulate(edge.source, {Reduced(gradient, edge.source)});
      return;
    }
    // What walks back must be a step value as wide as the source.
    const Node source = graph_->node(edge.source);  // a copy: adding nodes moves the original
    if (ElementCount(source.features) == 1 && ElementCount(graph_->node(gradient).features) != 1) {
      gradient = Unary(Op::kRowSum, gradient);
    }
    if (graph_->node(gradient).features != source.features ||
        graph_->node(gradient).domain != Domain::kStep) {
      gradient = Stretched(gradient, source.features);
    }
    if (Wants(edge)) {
      const Edge back{.source = gradient, .delay = edge.delay, .adjoint = !edge.adjoint};
      if (source.domain == Domain::kStep && source.direction == reader.direction) {
        Accumulate(edge.source, back);
      } else {
        // Read against the reader's walk by a node of its own, for the source's adjoint does not.
        Accumulate(edge.source, {Reduced(Apply(Op::kIdentity, {back}), edge.source)});
      }
    }
    if (WantsInit(edge)) {
      AccumulateInit(edge.init, HistoryNode(Op::kInitGrad, gradient, edge.delay, reader.direction));
    }
  }

  // A step value with these features, everywhere the operand.
  NodeId Stretched(NodeId operand, std::vector<int64_t> features) {
    return AddInferred(graph_, {.op = Op::kIdentity,
                                .domain = Domain::kStep,
                                .direction = direction_,
                                .inputs = {{operand}},
                                .features = std::move(features)});
  }

  NodeId HistoryNode(Op op, NodeId gradient, int64_t delay, Direction reader) {
    const NodeId id = Apply(op, {{gradient}}, {.size = delay});
    graph_->node(id).direction = reader;
    return id;
  }

  void AccumulateInit(NodeId init, NodeId history) { Accumulate(init, {Reduced(history, init)}); }

  void PropagateFinal(const Node& node, NodeId gradient) {
    const Edge& edge = node.inputs[0];
    if (Wants(edge)) {
      Accumulate(edge.source, {HistoryNode(Op::kFinalGrad, gradient, edge.delay, node.direction)});
    }
    if (WantsInit(edge)) {
      AccumulateInit(edge.init,
                     HistoryNode(Op::kFinalInitGrad, gradient, edge.delay, node.direction));
    }
  }

  // Sums a gradient over what the operand was broadcast along.
  NodeId Reduced(NodeId gradient, NodeId operand) {
    const Node& target = graph_->node(operand);
    if (ElementCount(target.features) == 1 && ElementCount(graph_->node(gradient).features) != 1) {
      gradient = Unary(Op::kRowSum, gradient);
    }
    const Domain wanted = graph_->node(operand).domain;
    const Domain has = graph_->node(gradient).domain;
    if (has > wanted) {
      gradient = Unary(wanted == Domain::kBatch ? Op::kSumTime : Op::kSumRows, gradient);
    }
    return gradient;
  }

  // The value that operand i of the node had at the node's own step.
  Edge Operand(const Node& node, size_t i) {
    const Edge& edge = node.inputs[i];
    if (edge.delay == 0) return edge;
    const auto key =
        std::make_tuple(edge.source, edge.delay, edge.init, edge.adjoint, node.direction);
    const auto [it, added] = reads_.try_emplace(key, kNoNode);
    if (added) {
      it->second = Apply(Op::kIdentity, {edge}, {}, Domain::kStep);
      graph_->node(it->second).direction = node.direction;
    }
    return {it->second};
  }

  // d node / d operand i, transposed, applied to the node's adjoint; shaped like the node.
  NodeId Gradient(const Node& node, NodeId id, size_t i) {
    const NodeId g = adjoint_[at(id)];
    const NodeId y = id;
    const auto operand = [&](size_t k) { return Operand(node, k).source; };
    switch (node.op) {
      case Op::kIdentity:
      case Op::kAdd:
      case Op::kSumTime:
      case Op::kSumRows:
      case Op::kRowSum:
        return g;
      case Op::kSub:
        return i == 0 ? g : Unary(Op::kNeg, g);
      case Op::kMul:
        return Mul(g, operand(1 - i));
      case Op::kDiv:
        return i == 0 ? Binary(Op::kDiv, g, operand(1))
                      : Unary(Op::kNeg, Binary(Op::kDiv, Mul(g, y), operand(1)));
      case Op::kMax:
      case Op::kMin:
        return ExtremumGradient(node, g, i);
      case Op::kNeg:
        return Unary(Op::kNeg, g);
      case Op::kSigmoid:
        return Mul(g, Mul(y, Binary(Op::kSub, Constant(1), y)));
      case Op::kTanh:
        return Mul(g, Binary(Op::kSub, Constant(1), Mul(y, y)));
      case Op::kRelu:
        return Select(Binary(Op::kGreater, y, Constant(0)), g, Constant(0));
      case Op::kSoftplus:
        return Mul(g, Unary(Op::kSigmoid, operand(0)));
      case Op::kLogSigmoid:
        return Mul(g, Unary(Op::kSigmoid, Unary(Op::kNeg, operand(0))));
      case Op::kExp:
        return Mul(g, y);
      case Op::kLog:
        return Binary(Op::kDiv, g, operand(0));
      case Op::kSqrt:
        return Binary(Op::kDiv, Mul(Constant(0.5), g), y);
      case Op::kReciprocal:
        return Unary(Op::kNeg, Mul(g, Mul(y, y)));
      case Op::kAbs:
        return AbsGradient(operand(0), g);
      case Op::kSin:
        return Mul(g, Unary(Op::kCos, operand(0)));
      case Op::kCos:
        return Unary(Op::kNeg, Mul(g, Unary(Op::kSin, operand(0))));
      case Op::kSelect:
        return i == 1 ? Select(operand(0), g, Constant(0)) : Select(operand(0), Constant(0), g);
      case Op::kSoftmax:
        return Mul(y, Binary(Op::kSub, g, Unary(Op::kRowSum, Mul(g, y))));
      case Op::kCrossEntropy:
        return CrossEntropyGradient(node, g);
      case Op::kMatMul:
      case Op::kMatMulTransposed:
      case Op::kOuter:
      case Op::kProduct:
      case Op::kTranspose:
        return MatrixGradient(node, g, i);
      case Op::kSlice:
      case Op::kPad:
      case Op::kConcat:
        return RangeGradient(node, g, i);
      case Op::kGather:
        return ApplyAs(node, Op::kScatterAdd, {node.inputs[1], {g}},
                       {.size = graph_->node(node.inputs[0].source).features[0]});
      case Op::kScatterAdd:
        return ApplyAs(node, Op::kGather, {{g}, node.inputs[0]});
      case Op::kFinalGrad:
      case Op::kFinalInitGrad:
      case Op::kInitGrad:
        return HistoryGradient(node, g);
      default:
        Fail("[autodiff] {} has no gradient", Traits(node.op).name);
    }
  }

  // On a tie the first operand takes it all.
  NodeId ExtremumGradient(const Node& node, NodeId g, size_t i) {
    const NodeId a = Operand(node, 0).source;
    const NodeId b = Operand(node, 1).source;
    const NodeId second =
        node.op == Op::kMax ? Binary(Op::kGreater, b, a) : Binary(Op::kGreater, a, b);
    return i == 0 ? Select(second, Constant(0), g) : Select(second, g, Constant(0));
  }

  NodeId AbsGradient(NodeId a, NodeId g) {
    const NodeId zero = Constant(0);
    const NodeId negative = Select(Binary(Op::kGreater, zero, a), Unary(Op::kNeg, g), zero);
    return Select(Binary(Op::kGreater, a, zero), g, negative);
  }

  NodeId CrossEntropyGradient(const Node& node, NodeId g) {
    const Edge logits = Operand(node, 0);
    const int64_t classes = graph_->node(logits.source).features[0];
    const NodeId target = ApplyAs(node, Op::kOneHot, {node.inputs[1]}, {.size = classes});
    return Mul(g, Binary(Op::kSub, Apply(Op::kSoftmax, {logits}), target));
  }

  // A product over rows reads the delayed operand as the reader did: no copy of it is needed.
  NodeId OuterOf(const Node& reader, Edge a, Edge b, const std::vector<int64_t>& shape) {
    return ApplyAs(reader, Op::kOuter, {a, b}, {.size = shape.size() == 3 ? shape[0] : 0});
  }

  NodeId MatrixGradient(const Node& node, NodeId g, size_t i) {
    const auto features = [&](size_t k) { return graph_->node(node.inputs[k].source).features; };
    switch (node.op) {
      case Op::kMatMul:
        return i == 0 ? OuterOf(node, {g}, node.inputs[1], features(0))
                      : Apply(Op::kMatMulTransposed, {node.inputs[0], {g}});
      case Op::kMatMulTransposed:
        return i == 0 ? OuterOf(node, node.inputs[1], {g}, features(0))
                      : Apply(Op::kMatMul, {node.inputs[0], {g}});
      case Op::kOuter:
        return i == 0 ? Apply(Op::kMatMul, {{g}, Operand(node, 1)})
                      : Apply(Op::kMatMulTransposed, {{g}, Operand(node, 0)});
      case Op::kProduct:
        return i == 0 ? Binary(Op::kProduct, g, Unary(Op::kTranspose, node.inputs[1].source))
                      : Binary(Op::kProduct, Unary(Op::kTranspose, node.inputs[0].source), g);
      default:
        return Unary(Op::kTranspose, g);
    }
  }

  NodeId RangeGradient(const Node& node, NodeId g, size_t i) {
    const int64_t n = graph_->node(node.inputs[i].source).features[0];
    if (node.op == Op::kSlice) {
      return Apply(Op::kPad, {{g}}, {.begin = node.attributes.begin, .size = n});
    }
    int64_t begin = node.attributes.begin;
    if (node.op == Op::kConcat) {
      begin = 0;
      for (size_t k = 0; k < i; ++k) begin += graph_->node(node.inputs[k].source).features[0];
    }
    return Apply(Op::kSlice, {{g}}, {.begin = begin, .size = n});
  }

  // The adjoints of delayed reads are linear; their own adjoints are reads again, of zeros where
  // only the initial value counts.
  NodeId HistoryGradient(const Node& node, NodeId g) {
    const auto delay = static_cast<int32_t>(node.attributes.size);
    Edge read{.source = g, .delay = delay};
    if (node.op != Op::kFinalGrad) {
      const int64_t n = graph_->node(node.inputs[0].source).features[0];
      read = {.source = Stretched(Constant(0), {node.op == Op::kInitGrad ? n : n / delay}),
              .delay = delay,
              .init = g};
    }
    const bool at_end = node.op != Op::kInitGrad;
    const NodeId id = at_end ? Apply(Op::kFinal, {read}, {}, Domain::kStep)
                             : Apply(Op::kIdentity, {read}, {}, Domain::kStep);
    graph_->node(id).direction = node.direction;
    return id;
  }

  Graph* graph_;
  NodeId count_;  // nodes before differentiation
  Direction direction_ = Direction::kForward;
  std::vector<bool> needed_;
  std::vector<NodeId> adjoint_;
  std::map<std::tuple<NodeId, int32_t, NodeId, bool, Direction>, NodeId> reads_;
};

}  // namespace

std::vector<NodeId> Gradients(Graph* graph, const std::vector<Cotangent>& outputs,
                              const std::vector<NodeId>& wrt) {
  return Differentiator(graph).Run(outputs, wrt);
}

NodeId Ones(Graph* graph) {
  return AddInferred(graph, {.op = Op::kConstant, .attributes = {.number = 1}});
}

}  // namespace turbolstm
