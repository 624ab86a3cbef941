#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"

namespace turbolstm {

class Builder;

// A value as an operand: a node, read with a delay and its transforms. Cheap to copy.
class Value {
 public:
  Value() : builder_(nullptr) {}
  Value(Builder* builder, Edge edge) : builder_(builder), edge_(edge) {}

  // The value of `delay` more steps before, as the reader walks through time.
  // init: Batch or Static [delay * n], oldest first; without it the beginning reads zeros.
  Value Delayed(int32_t delay, const Value& init = {}) const;
  // The value of the step before: Delayed(1).
  Value Previous(const Value& init = {}) const { return Delayed(1, init); }
  // Transforms of a delayed value; probabilities in [0, 1].
  Value WithZoneout(float probability) const;
  Value WithVariationalDropout(float probability) const;

  bool defined() const { return edge_.source != kNoNode; }
  NodeId id() const { return edge_.source; }
  const Edge& edge() const { return edge_; }
  Builder& builder() const { return *builder_; }
  int64_t features() const;  // of the first feature axis

  Value Named(std::string name) const;  // names the node

 private:
  Builder* builder_;
  Edge edge_;
};

// Adds nodes to a graph, inferring shapes and domains and checking operands. New Step nodes walk
// in `direction`. Errors name the operator, the shapes that came and what was wanted.
class Builder {
 public:
  explicit Builder(Graph* graph, Direction direction = Direction::kForward)
      : graph_(graph), direction_(direction) {}

  Graph& graph() const { return *graph_; }
  Direction direction() const { return direction_; }

  Value Input(std::string name, Domain domain, std::vector<int64_t> features);
  Value IndexInput(std::string name, Domain domain);
  Value Parameter(std::string name, std::vector<int64_t> features);
  Value Constant(double number);
  // Bernoulli(keep) * scale, drawn anew for each element (Step: and each step); `mean` outside
  // training, which for dropout is 1 even where nothing is kept.
  Value RandomMask(Domain domain, int64_t n, double keep, double scale, double mean);
  Value Lengths();
  Value RowCount(Domain domain);

  // A state [n] that may be read (delayed) before it is defined; Define closes the cycle.
  Value State(std::string name, int64_t n);
  void Define(const Value& state, const Value& next);

  // Any operator; shapes and domain follow from the operands and attributes.
  // domain: at least that of the operands; raises it for a broadcast.
  Value Apply(Op op, const std::vector<Value>& operands, Attributes attributes = {},
              Domain domain = Domain::kStatic);

 private:
  Graph* graph_;
  Direction direction_;
};

Value operator+(const Value& a, const Value& b);
Value operator-(const Value& a, const Value& b);
Value operator*(const Value& a, const Value& b);
Value operator/(const Value& a, const Value& b);
Value operator-(const Value& a);
Value operator+(double a, const Value& b);
Value operator-(double a, const Value& b);
Value operator*(double a, const Value& b);

Value Sigmoid(const Value& x);
Value Tanh(const Value& x);
Value Relu(const Value& x);
Value Softplus(const Value& x);
Value LogSigmoid(const Value& x);
Value Exp(const Value& x);
Value Max(const Value& a, const Value& b);
Value Min(const Value& a, const Value& b);
// weight * a + (1 - weight) * b
Value Lerp(const Value& weight, const Value& a, const Value& b);
Value Select(const Value& condition, const Value& a, const Value& b);
// weight [m, k] (or block diagonal [heads, m/heads, k/heads]) times x [k] -> [m]
Value MatMul(const Value& weight, const Value& x);
Value Slice(const Value& x, int64_t begin, int64_t size);
// `count` equal slices along the first feature axis.
std::vector<Value> Split(const Value& x, int64_t count);
Value Concat(const std::vector<Value>& parts);
Value RowSum(const Value& x);
Value SumTime(const Value& x);
Value SumRows(const Value& x);
// (x - mean) / sqrt(variance + epsilon) over the features, times gain [n], plus bias [n].
Value LayerNorm(const Value& x, const Value& gain, const Value& bias, double epsilon = 1e-5);
// The last `delay` values of a delayed read at the end of the sequence: Batch [delay * n].
Value Final(const Value& delayed);

}  // namespace turbolstm
