#include "graph/builder.h"

#include "base/error.h"
#include "graph/shapes.h"

namespace turbolstm {

Value Value::Delayed(int32_t delay, const Value& init) const {
  Value value = *this;
  value.edge_.delay = edge_.delay + delay;
  value.edge_.init = init.defined() ? init.id() : kNoNode;
  return value;
}

Value Value::WithZoneout(float probability) const {
  Value value = *this;
  value.edge_.zoneout = probability;
  return value;
}

Value Value::WithVariationalDropout(float probability) const {
  Value value = *this;
  value.edge_.dropout = probability;
  return value;
}

int64_t Value::features() const {
  return builder_->graph().node(id()).features.front();
}

Value Value::Named(std::string name) const {
  TL_CHECK(builder_->graph().Find(name) == kNoNode, "[graph] two nodes are named '{}'", name);
  builder_->graph().node(id()).name = std::move(name);
  return *this;
}

namespace {

Node Source(Op op, Domain domain, Direction direction, std::string name,
            std::vector<int64_t> features) {
  Node node;
  node.op = op;
  node.domain = domain;
  node.direction = direction;
  node.name = std::move(name);
  node.features = std::move(features);
  return node;
}

}  // namespace

Value Builder::Input(std::string name, Domain domain, std::vector<int64_t> features) {
  Node node = Source(Op::kInput, domain, direction_, std::move(name), std::move(features));
  InferShape(*graph_, &node);
  return Value(this, {graph_->Add(std::move(node))});
}

Value Builder::IndexInput(std::string name, Domain domain) {
  Node node = Source(Op::kInput, domain, direction_, std::move(name), {1});
  node.type = ValueType::kIndex;
  return Value(this, {graph_->Add(std::move(node))});
}

Value Builder::Parameter(std::string name, std::vector<int64_t> features) {
  if (const NodeId known = graph_->Find(name); known != kNoNode) {
    TL_CHECK(graph_->node(known).op == Op::kParameter && graph_->node(known).features == features,
             "[parameter] '{}' is {} already, wanted {}", name, graph_->node(known).features,
             features);
    return Value(this, {known});
  }
  Node node =
      Source(Op::kParameter, Domain::kStatic, direction_, std::move(name), std::move(features));
  InferShape(*graph_, &node);
  return Value(this, {graph_->Add(std::move(node))});
}

Value Builder::Constant(double number) {
  return Apply(Op::kConstant, {}, {.number = number});
}

Value Builder::RandomMask(Domain domain, int64_t n, double keep, double scale, double mean) {
  TL_CHECK(keep >= 0 && keep <= 1, "[random_mask] keep probability is {}, wants 0 to 1", keep);
  Node node = Source(Op::kRandomMask, domain, direction_, "", {n});
  node.attributes.number = keep;
  node.attributes.scale = scale;
  node.attributes.mean = mean;
  for (const Node& other : graph_->nodes()) node.attributes.site += other.op == Op::kRandomMask;
  return Value(this, {graph_->Add(std::move(node))});
}

Value Builder::Lengths() {
  return Apply(Op::kLengths, {}, {}, Domain::kBatch);
}

Value Builder::RowCount(Domain domain) {
  return Apply(Op::kRowCount, {}, {.domain = domain});
}

Value Builder::State(std::string name, int64_t n) {
  return Value(
      this, {graph_->Add(Source(Op::kIdentity, Domain::kStep, direction_, std::move(name), {n}))});
}

void Builder::Define(const Value& state, const Value& next) {
  Node& node = graph_->node(state.id());
  TL_CHECK(node.op == Op::kIdentity && node.inputs.empty(), "[state] '{}' is defined already",
           graph_->Label(state.id()));
  TL_CHECK(graph_->node(next.id()).features == node.features,
           "[state] '{}' is {}, its definition {} is {}", node.name, node.features,
           graph_->Label(next.id()), graph_->node(next.id()).features);
  node.inputs = {next.edge()};
}

Value Builder::Apply(Op op, const std::vector<Value>& operands, Attributes attributes,
                     Domain domain) {
  std::vector<Edge> inputs;
  for (const Value& operand : operands) {
    TL_CHECK(operand.defined(), "[{}] an operand is undefined", Traits(op).name);
    inputs.push_back(operand.edge());
  }
  return Value(this,
               {AddInferred(graph_, {op, domain, direction_, std::move(inputs), attributes})});
}

Value operator+(const Value& a, const Value& b) {
  return a.builder().Apply(Op::kAdd, {a, b});
}
Value operator-(const Value& a, const Value& b) {
  return a.builder().Apply(Op::kSub, {a, b});
}
Value operator*(const Value& a, const Value& b) {
  return a.builder().Apply(Op::kMul, {a, b});
}
Value operator/(const Value& a, const Value& b) {
  return a.builder().Apply(Op::kDiv, {a, b});
}
Value operator-(const Value& a) {
  return a.builder().Apply(Op::kNeg, {a});
}
Value operator+(double a, const Value& b) {
  return b.builder().Constant(a) + b;
}
Value operator-(double a, const Value& b) {
  return b.builder().Constant(a) - b;
}
Value operator*(double a, const Value& b) {
  return b.builder().Constant(a) * b;
}

Value Sigmoid(const Value& x) {
  return x.builder().Apply(Op::kSigmoid, {x});
}
Value Tanh(const Value& x) {
  return x.builder().Apply(Op::kTanh, {x});
}
Value Relu(const Value& x) {
  return x.builder().Apply(Op::kRelu, {x});
}
Value Softplus(const Value& x) {
  return x.builder().Apply(Op::kSoftplus, {x});
}
Value LogSigmoid(const Value& x) {
  return x.builder().Apply(Op::kLogSigmoid, {x});
}
Value Exp(const Value& x) {
  return x.builder().Apply(Op::kExp, {x});
}
Value Max(const Value& a, const Value& b) {
  return a.builder().Apply(Op::kMax, {a, b});
}
Value Min(const Value& a, const Value& b) {
  return a.builder().Apply(Op::kMin, {a, b});
}

Value Lerp(const Value& weight, const Value& a, const Value& b) {
  return weight * a + (1.0 - weight) * b;
}

Value Select(const Value& condition, const Value& a, const Value& b) {
  return condition.builder().Apply(Op::kSelect, {condition, a, b});
}

Value MatMul(const Value& weight, const Value& x) {
  return x.builder().Apply(Op::kMatMul, {weight, x});
}

Value Slice(const Value& x, int64_t begin, int64_t size) {
  return x.builder().Apply(Op::kSlice, {x}, {.begin = begin, .size = size});
}

std::vector<Value> Split(const Value& x, int64_t count) {
  const int64_t n = x.features();
  TL_CHECK(count > 0 && n % count == 0, "[split] {} features do not split into {}", n, count);
  std::vector<Value> parts;
  for (int64_t i = 0; i < count; ++i) parts.push_back(Slice(x, i * (n / count), n / count));
  return parts;
}

Value Concat(const std::vector<Value>& parts) {
  TL_CHECK(!parts.empty(), "[concat] got no parts");
  return parts.front().builder().Apply(Op::kConcat, parts);
}

Value RowSum(const Value& x) {
  return x.builder().Apply(Op::kRowSum, {x});
}
Value SumTime(const Value& x) {
  return x.builder().Apply(Op::kSumTime, {x});
}
Value SumRows(const Value& x) {
  return x.builder().Apply(Op::kSumRows, {x});
}

Value LayerNorm(const Value& x, const Value& gain, const Value& bias, double epsilon) {
  const double share = 1.0 / static_cast<double>(x.features());
  const Value centred = x - share * RowSum(x);
  const Value variance = share * RowSum(centred * centred);
  const Value deviation = x.builder().Apply(Op::kSqrt, {epsilon + variance});
  return centred / deviation * gain + bias;
}

Value Final(const Value& delayed) {
  return delayed.builder().Apply(Op::kFinal, {delayed});
}

}  // namespace turbolstm
