#include "graph/shapes.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace turbolstm {
namespace {

class ShapeInference {
 public:
  ShapeInference(const Graph& graph, Node* node) : graph_(graph), node_(node) {}

  void Run() {
    CheckOperands();
    if (!node_->inputs.empty() && !IsReduction()) RaiseDomain();
    InferFeatures();
  }

 private:
  const Node& operand(size_t i) const { return graph_.node(node_->inputs[i].source); }
  const std::vector<int64_t>& features(size_t i) const { return operand(i).features; }
  const Attributes& attributes() const { return node_->attributes; }
  std::string_view name() const { return Traits(node_->op).name; }
  std::string where() const {
    return node_->name.empty() ? std::string(name()) : fmt::format("{} '{}'", name(), node_->name);
  }

  void CheckOperands() const {
    const OpTraits& traits = Traits(node_->op);
    const auto count = static_cast<int>(node_->inputs.size());
    TL_CHECK(traits.arity < 0 ? count >= 1 : count == traits.arity,
             "[{}] got {} operands, wants {}", where(), count,
             traits.arity < 0 ? "at least 1" : std::to_string(traits.arity));
    for (const Edge& edge : node_->inputs) CheckEdge(edge);
    for (size_t i = 0; i < node_->inputs.size(); ++i) {
      const bool wants_index = IndexOperand() == static_cast<int>(i);
      const bool is_index = operand(i).type == ValueType::kIndex;
      TL_CHECK(wants_index == is_index, "[{}] operand {} ({}) holds {}, wants {}", where(), i,
               graph_.Label(node_->inputs[i].source), is_index ? "indices" : "numbers",
               wants_index ? "indices" : "numbers");
    }
  }

  void CheckEdge(const Edge& edge) const {
    TL_CHECK(edge.source >= 0 && edge.source < graph_.size(), "[{}] operand names node {} of {}",
             where(), edge.source, graph_.size());
    TL_CHECK(edge.delay >= 0, "[{}] operand {} has delay {}, wants >= 0", where(),
             graph_.Label(edge.source), edge.delay);
    TL_CHECK(edge.delay > 0 || edge.init == kNoNode,
             "[{}] operand {} has an initial value but no delay", where(),
             graph_.Label(edge.source));
    TL_CHECK(edge.delay > 0 || (edge.zoneout == 0 && edge.dropout == 0),
             "[{}] operand {} has a transform but no delay", where(), graph_.Label(edge.source));
    if (edge.delay == 0) return;
    const Node& source = graph_.node(edge.source);
    TL_CHECK(source.domain == Domain::kStep || node_->domain == Domain::kStep,
             "[{}] operand {} is {}, only step values have a past", where(),
             graph_.Label(edge.source), Name(source.domain));
    for (const float p : {edge.zoneout, edge.dropout}) {
      TL_CHECK(p >= 0 && p <= 1,
               "[{}] operand {} has a transform with probability {}, wants 0 to 1", where(),
               graph_.Label(edge.source), p);
    }
    if (edge.init == kNoNode) return;
    TL_CHECK(edge.init >= 0 && edge.init < graph_.size(),
             "[{}] an initial value names node {} of {}", where(), edge.init, graph_.size());
    const Node& init = graph_.node(edge.init);
    TL_CHECK(source.type == ValueType::kFloat && init.type == ValueType::kFloat,
             "[{}] operand {} has an initial value: indices have none and are none", where(),
             graph_.Label(edge.source));
    const int64_t wanted = edge.delay * ElementCount(source.features);
    TL_CHECK(init.domain != Domain::kStep && ElementCount(init.features) == wanted,
             "[{}] the initial value of {} is {} {}, wants batch or static [{}]", where(),
             graph_.Label(edge.source), Name(init.domain), init.features, wanted);
  }

  int IndexOperand() const {
    switch (node_->op) {
      case Op::kGather:
      case Op::kCrossEntropy:
        return 1;
      case Op::kScatterAdd:
      case Op::kOneHot:
        return 0;
      default:
        return -1;
    }
  }

  bool IsReduction() const {
    switch (node_->op) {
      case Op::kOuter:
      case Op::kSumTime:
      case Op::kSumRows:
      case Op::kFinal:
      case Op::kFinalGrad:
      case Op::kFinalInitGrad:
      case Op::kInitGrad:
      case Op::kScatterAdd:
        return true;
      default:
        return false;
    }
  }

  void RaiseDomain() const {
    for (const Edge& edge : node_->inputs) {
      const Domain domain = edge.delay > 0 ? Domain::kStep : graph_.node(edge.source).domain;
      node_->domain = std::max(node_->domain, domain);
    }
  }

  void InferFeatures() {
    if (Traits(node_->op).pointwise) return InferPointwise();
    switch (node_->op) {
      case Op::kInput:
      case Op::kParameter:
      case Op::kRandomMask:
        for (const int64_t n : node_->features) {
          TL_CHECK(n >= 0, "[{}] has a feature axis of {}", where(), n);
        }
        return;
      case Op::kConstant:
      case Op::kLengths:
      case Op::kRowCount:
        node_->features = {1};
        return;
      case Op::kMatMul:
      case Op::kMatMulTransposed:
        return InferMatMul();
      case Op::kOuter:
        return InferOuter();
      case Op::kProduct:
        RequireStatic(0, 2);
        RequireStatic(1, 2);
        TL_CHECK(features(0)[1] == features(1)[0], "[{}] got {} and {}, wants [m, k] and [k, n]",
                 where(), features(0), features(1));
        node_->features = {features(0)[0], features(1)[1]};
        return;
      case Op::kTranspose: {
        TL_CHECK(operand(0).domain == Domain::kStatic && features(0).size() >= 2,
                 "[{}] got {} {}, wants a static matrix", where(), Name(operand(0).domain),
                 features(0));
        node_->features = features(0);
        std::swap(node_->features.end()[-1], node_->features.end()[-2]);
        return;
      }
      case Op::kSlice:
      case Op::kPad:
        return InferRange();
      case Op::kConcat:
        return InferConcat();
      case Op::kRowSum:
        TL_CHECK(operand(0).domain == Domain::kStatic || features(0).size() == 1,
                 "[{}] operand has features {}, wants one axis", where(), features(0));
        node_->features = {1};
        return;
      case Op::kSumTime:
        return InferReduction(Domain::kBatch, features(0), Domain::kStep);
      case Op::kSumRows:
        return InferReduction(Domain::kStatic, features(0), Domain::kBatch);
      case Op::kFirstMaxMask:
        RequireDomain(0, Domain::kStep);
        node_->features = features(0);
        return;
      case Op::kFinal:
        RequireVector(0);
        TL_CHECK(node_->inputs[0].delay > 0, "[{}] operand {} has no delay, wants a delayed value",
                 where(), graph_.Label(node_->inputs[0].source));
        node_->domain = Domain::kBatch;
        node_->features = {node_->inputs[0].delay * features(0)[0]};
        return;
      case Op::kFinalGrad:
        RequireHistory();
        node_->domain = Domain::kStep;
        node_->features = {features(0)[0] / attributes().size};
        return;
      case Op::kFinalInitGrad:
        RequireHistory();
        node_->domain = Domain::kBatch;
        node_->features = features(0);
        return;
      case Op::kInitGrad:
        RequireVector(0);
        RequireDomain(0, Domain::kStep);
        TL_CHECK(attributes().size > 0, "[{}] has delay {}, wants > 0", where(), attributes().size);
        node_->domain = Domain::kBatch;
        node_->features = {attributes().size * features(0)[0]};
        return;
      case Op::kGather:
        RequireStatic(0, 2);
        node_->features = {features(0)[1]};
        return;
      case Op::kScatterAdd:
        RequireVector(1);
        node_->domain = Domain::kStatic;
        node_->features = {attributes().size, features(1)[0]};
        return;
      case Op::kOneHot:
        node_->features = {attributes().size};
        return;
      case Op::kSoftmax:
        RequireVector(0);
        node_->features = features(0);
        return;
      case Op::kCrossEntropy:
        RequireVector(0);
        node_->features = {1};
        return;
      default:
        Fail("[{}] has no shape rule", where());
    }
  }

  // Operands of one shape; [1] stretches, also to what a sum or an identity declares.
  void InferPointwise() {
    const bool declared =
        !node_->features.empty() && (node_->op == Op::kAdd || node_->op == Op::kIdentity);
    std::vector<int64_t> shape = declared ? node_->features : std::vector<int64_t>{1};
    for (size_t i = 0; i < node_->inputs.size(); ++i) {
      if (features(i) == std::vector<int64_t>{1}) continue;
      TL_CHECK(shape == std::vector<int64_t>{1} || shape == features(i),
               "[{}] operand {} ({}) is {}, the others are {}", where(), i,
               graph_.Label(node_->inputs[i].source), features(i), shape);
      shape = features(i);
    }
    TL_CHECK(node_->domain == Domain::kStatic || shape.size() == 1,
             "[{}] a {} value has features {}, wants one axis", where(), Name(node_->domain),
             shape);
    node_->features = shape;
  }

  void InferMatMul() {
    const std::vector<int64_t>& w = features(0);
    TL_CHECK(operand(0).domain == Domain::kStatic && (w.size() == 2 || w.size() == 3),
             "[{}] weight {} is {} {}, wants static [m, k] or [heads, m, k]", where(),
             graph_.Label(node_->inputs[0].source), Name(operand(0).domain), w);
    RequireVector(1);
    const int64_t heads = w.size() == 3 ? w[0] : 1;
    const int64_t m = heads * w[w.size() - 2];
    const int64_t k = heads * w[w.size() - 1];
    const bool transposed = node_->op == Op::kMatMulTransposed;
    TL_CHECK(features(1)[0] == (transposed ? m : k),
             "[{}] {} has {} features, weight {} {} wants {}", where(),
             graph_.Label(node_->inputs[1].source), features(1)[0],
             graph_.Label(node_->inputs[0].source), w, transposed ? m : k);
    node_->features = {transposed ? k : m};
  }

  void InferOuter() {
    RequireVector(0);
    RequireVector(1);
    const int64_t m = features(0)[0];
    const int64_t k = features(1)[0];
    const int64_t heads = attributes().size;
    node_->domain = Domain::kStatic;
    if (heads == 0) {
      node_->features = {m, k};
      return;
    }
    TL_CHECK(heads > 0 && m % heads == 0 && k % heads == 0,
             "[{}] {} heads do not divide [{}] and [{}]", where(), heads, m, k);
    node_->features = {heads, m / heads, k / heads};
  }

  void InferRange() {
    TL_CHECK(!features(0).empty(), "[{}] operand {} has no axis", where(),
             graph_.Label(node_->inputs[0].source));
    const int64_t n = features(0)[0];
    const Attributes& a = attributes();
    const bool inside = node_->op == Op::kSlice
                            ? a.begin >= 0 && a.size >= 0 && a.begin <= n && a.size <= n - a.begin
                            : a.begin >= 0 && a.size >= n && a.begin <= a.size - n;
    TL_CHECK(inside, "[{}] begin {} and size {} do not fit {} elements of {}", where(), a.begin,
             a.size, n, graph_.Label(node_->inputs[0].source));
    node_->features = features(0);
    node_->features[0] = a.size;
  }

  void InferConcat() {
    node_->features = features(0);
    TL_CHECK(!node_->features.empty(), "[{}] operand 0 has no axis", where());
    node_->features[0] = 0;
    for (size_t i = 0; i < node_->inputs.size(); ++i) {
      std::vector<int64_t> rest = features(i);
      TL_CHECK(!rest.empty(), "[{}] operand {} has no axis", where(), i);
      node_->features[0] += rest[0];
      rest[0] = node_->features[0];
      TL_CHECK(rest == node_->features, "[{}] operand {} is {}, operand 0 is {}", where(), i,
               features(i), features(0));
    }
  }

  void InferReduction(Domain result, std::vector<int64_t> shape, Domain least) {
    TL_CHECK(operand(0).domain >= least, "[{}] {} is {}, wants at least {}", where(),
             graph_.Label(node_->inputs[0].source), Name(operand(0).domain), Name(least));
    node_->domain = result;
    node_->features = std::move(shape);
  }

  void RequireStatic(size_t i, size_t axes) const {
    TL_CHECK(operand(i).domain == Domain::kStatic && features(i).size() == axes,
             "[{}] operand {} ({}) is {} {}, wants static with {} axes", where(), i,
             graph_.Label(node_->inputs[i].source), Name(operand(i).domain), features(i), axes);
  }
  void RequireVector(size_t i) const {
    TL_CHECK(features(i).size() == 1, "[{}] operand {} ({}) has features {}, wants one axis",
             where(), i, graph_.Label(node_->inputs[i].source), features(i));
  }
  void RequireDomain(size_t i, Domain domain) const {
    TL_CHECK(operand(i).domain == domain, "[{}] operand {} ({}) is {}, wants {}", where(), i,
             graph_.Label(node_->inputs[i].source), Name(operand(i).domain), Name(domain));
  }
  void RequireHistory() const {
    RequireVector(0);
    RequireDomain(0, Domain::kBatch);
    TL_CHECK(attributes().size > 0 && features(0)[0] % attributes().size == 0,
             "[{}] {} has {} features, wants a multiple of delay {}", where(),
             graph_.Label(node_->inputs[0].source), features(0)[0], attributes().size);
  }

  const Graph& graph_;
  Node* node_;
};

}  // namespace

void InferShape(const Graph& graph, Node* node) {
  ShapeInference(graph, node).Run();
}

NodeId AddInferred(Graph* graph, NewNode description) {
  Node node;
  node.op = description.op;
  node.domain = description.domain;
  node.direction = description.direction;
  node.inputs = std::move(description.inputs);
  node.attributes = description.attributes;
  node.features = std::move(description.features);
  InferShape(*graph, &node);
  return graph->Add(std::move(node));
}

}  // namespace turbolstm
