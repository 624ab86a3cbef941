#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace turbolstm {

// Dense, row-major.
template <typename T>
struct BasicArray {
  std::vector<int64_t> shape;
  std::vector<T> data;

  bool operator==(const BasicArray&) const = default;
};
using Array = BasicArray<double>;
using IndexArray = BasicArray<int32_t>;

// What a graph runs on. Values carry the axes of their domain: Step [T, B, features...],
// Batch [B, features...], Static [features...]; indices [T, B] or [B].
struct Bindings {
  int64_t steps = 0;             // T
  int64_t batch = 0;             // B
  std::vector<int64_t> lengths;  // [B], each 0..T; empty: all T
  std::vector<uint8_t> resets;   // [T, B], kResetToInit or kResetToZero where the walk
                                 // starts anew, else 0; empty: nowhere
  std::map<std::string, Array> values;
  std::map<std::string, IndexArray> indices;
  bool training = false;  // random masks are drawn, not replaced by their mean
  uint64_t seed = 0;
  uint32_t training_step = 0;
};

// [T, B, ...], [B, ...] or [...]: a node's shape under these bindings.
std::vector<int64_t> FullShape(const Node& node, const Bindings& bindings);

// The meaning of a graph: every output by name, in float64 and plain loops. It is what all other
// ways of executing are compared with, so it knows no analysis: each row of each node is
// evaluated when somebody asks for it, once.
//
// Throws Error for bindings that miss, are not known, or have a wrong shape; for lengths outside
// 0..T; indices outside their table; edges that still hold transforms (see LowerTransforms); and
// for values that depend on themselves.
std::map<std::string, Array> Interpret(const Graph& graph, const Bindings& bindings);

// The same for chosen nodes.
std::vector<Array> InterpretNodes(const Graph& graph, const Bindings& bindings,
                                  const std::vector<NodeId>& nodes);

}  // namespace turbolstm
