#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace turbolstm {

using NodeId = int32_t;
inline constexpr NodeId kNoNode = -1;

// Where a value lives. Its `features` are the axes behind those named here; letters as in the docs.
enum class Domain : uint8_t {
  kStatic,  // parameters and what is made of them only: [features...]
  kBatch,   // one value a sequence: [B, features...]
  kStep,    // one value a sequence and time step: [T, B, features...]
};

// Which way a node walks through time; a delay of d reads the value of d steps before, as it walks.
enum class Direction : int8_t { kForward = 1, kReverse = -1 };

inline Direction Opposite(Direction direction) {
  return direction == Direction::kForward ? Direction::kReverse : Direction::kForward;
}

// A Step value exists at the valid steps of a sequence only: 0 <= t < length[b]. At padded steps
// it is zero for whoever looks, and no operator reads it.
enum class Op : uint8_t {
  // Sources.
  kInput,       // bound by name at run time
  kParameter,   // Static, bound by name at run time
  kConstant,    // Static [1]; attributes.number
  kRandomMask,  // Step or Batch; number = keep probability, scale = value of a kept element,
                // mean = every element outside training. site tells draws apart.
  kLengths,     // Batch [1]: valid steps of each sequence
  kRowCount,    // Static [1]: how many rows attributes.domain has (B, or the sum of lengths)

  // Elementwise on [n]; an operand may also be [1], of a smaller domain, or both (broadcast).
  kIdentity,
  kAdd,  // any number of operands >= 1
  kSub,
  kMul,
  kDiv,
  kMax,
  kMin,
  kNeg,
  kSigmoid,
  kTanh,
  kRelu,
  kSoftplus,
  kLogSigmoid,
  kExp,
  kLog,
  kSqrt,
  kReciprocal,
  kAbs,
  kSin,
  kCos,
  kGreater,  // a > b ? 1 : 0; no gradient
  kSelect,   // c != 0 ? a : b, operands (c, a, b); no gradient to c

  // Matrix products with a Static matrix W [m, k], or W [heads, m/heads, k/heads] block diagonal.
  kMatMul,            // (W, x [k]) -> [m]
  kMatMulTransposed,  // (W, y [m]) -> [k]
  kOuter,  // (a [m], b [k]) -> Static, summed over all rows; attributes.size = heads, 0 for [m, k]
  kProduct,    // Static (A [m, k], B [k, n]) -> [m, n]
  kTranspose,  // Static [.., m, n] -> [.., n, m]

  // Along the first feature axis.
  kSlice,   // attributes.begin, size
  kPad,     // zeros around: begin before, up to size in all
  kConcat,  // any number of operands >= 1

  // Reductions.
  kRowSum,        // [n] -> [1]; of a Static value, all its elements
  kSumTime,       // Step -> Batch
  kSumRows,       // Step or Batch -> Static
  kFirstMaxMask,  // Step -> Step: 1 at the first step that holds the maximum over time, else 0

  // Ends and beginnings of a delayed edge with delay d; histories are [d * n], oldest first.
  kFinal,          // (x delayed by d) -> Batch: what the d steps after the last one would read
  kFinalGrad,      // adjoint of kFinal for x; attributes.size = d
  kFinalInitGrad,  // adjoint of kFinal for the initial value; attributes.size = d
  kInitGrad,       // adjoint of a delayed edge for its initial value; attributes.size = d

  // Indices (values of dtype kIndex).
  kGather,      // (table [V, n], index) -> [n]
  kScatterAdd,  // (index, g [n]) -> Static [V, n]; attributes.size = V
  kOneHot,      // (index) -> [V]; attributes.size = V

  kSoftmax,       // [n] -> [n]
  kCrossEntropy,  // (logits [n], index) -> [1]: log sum exp(logits) - logits[index]
};

// The use of a value by a node.
struct Edge {
  NodeId source = kNoNode;
  int32_t delay = 0;
  // What is read where source has no value yet: Batch or Static [delay * n], oldest first; none: 0.
  NodeId init = kNoNode;
  // The adjoint of a delayed edge runs against the walk it came from: a reset cuts it there.
  bool adjoint = false;
  // Transforms of the carried value, expanded by LowerTransforms.
  float zoneout = 0;  // probability that an element keeps its previous value
  float dropout = 0;  // variational: one mask a sequence, the same at every step
};

struct Attributes {
  double number = 0;
  double scale = 1;
  double mean = 1;
  int64_t begin = 0;
  int64_t size = 0;
  int32_t site = 0;
  Domain domain = Domain::kBatch;

  bool operator==(const Attributes&) const = default;
};

enum class ValueType : uint8_t { kFloat, kIndex };

struct Node {
  Op op = Op::kIdentity;
  Domain domain = Domain::kStep;
  Direction direction = Direction::kForward;
  ValueType type = ValueType::kFloat;
  std::vector<int64_t> features;
  std::vector<Edge> inputs;
  Attributes attributes;
  std::string name;  // unique where not empty
  // Does again what another node did, so that its value need not be kept: runs as late as it can.
  bool recomputed = false;
};

// A network: operators on values of one time step, joined by edges that carry a delay.
// Nodes are only appended; ids are positions.
class Graph {
 public:
  NodeId Add(Node node);

  const Node& node(NodeId id) const { return nodes_[static_cast<size_t>(id)]; }
  Node& node(NodeId id) { return nodes_[static_cast<size_t>(id)]; }
  NodeId size() const { return static_cast<NodeId>(nodes_.size()); }
  const std::vector<Node>& nodes() const { return nodes_; }

  // What the graph is run for, in order. Names are unique.
  void AddOutput(std::string name, NodeId id);
  const std::vector<std::pair<std::string, NodeId>>& outputs() const { return outputs_; }
  void SetOutputs(std::vector<std::pair<std::string, NodeId>> outputs) {
    outputs_ = std::move(outputs);
  }

  // kNoNode when there is none.
  NodeId Find(std::string_view name) const;
  NodeId FindOutput(std::string_view name) const;

  // The node's name, or "<op>#<id>".
  std::string Label(NodeId id) const;

 private:
  std::vector<Node> nodes_;
  std::vector<std::pair<std::string, NodeId>> outputs_;
};

struct OpTraits {
  std::string_view name;
  int arity;       // -1: any number >= 1
  bool pointwise;  // element i of the result needs element i of the operands only
  bool per_step;   // step t of the result needs step t of the (delayed) operands only
  bool matrix;     // a product with a Static matrix
};
const OpTraits& Traits(Op op);
// Throws when there is no operator of that name.
Op OpNamed(std::string_view name);

std::string_view Name(Domain domain);

int64_t ElementCount(const std::vector<int64_t>& features);

}  // namespace turbolstm
