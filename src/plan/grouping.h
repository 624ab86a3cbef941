#pragma once

#include <map>
#include <vector>

#include "graph/analysis.h"
#include "graph/graph.h"
#include "plan/uses.h"

namespace turbolstm {

// What becomes of a node.
enum class Role : uint8_t {
  kSource,        // input or parameter: a buffer to begin with
  kInline,        // constant: part of the programs that read it
  kView,          // columns of another value
  kPointwise,     // instructions of a fused program
  kFusedSum,      // a sum done by the products it adds
  kFusedProduct,  // a product that a kFusedSum does
  kConcat,        // a buffer that its parts are written into
  kNode,          // a stage of its own
};

// What a kFusedSum adds up.
struct FusedSum {
  std::vector<NodeId> products;
  NodeId bias = kNoNode;  // Static [n]
  NodeId base = kNoNode;  // a value that nobody else reads: the sum is done in its place
};

// Nodes of one stage; pointwise ones make one program.
struct StageNodes {
  bool pointwise = false;
  std::vector<NodeId> nodes;
};

struct GroupNodes {
  RegionKind kind = RegionKind::kTimeParallel;
  Direction direction = Direction::kForward;
  int levels = 0;
  std::vector<StageNodes> stages;
};

// The nodes of a graph dealt out to groups and stages, in an order that honours every dependency.
struct Grouping {
  std::vector<Role> roles;        // by node
  std::vector<int32_t> group_of;  // by node; -1 for sources, constants and views
  std::vector<int32_t> stage_of;  // by node: position of its stage within the group
  std::vector<GroupNodes> groups;
  std::map<NodeId, FusedSum> sums;
};

Grouping GroupNodesOf(const Graph& graph, const Analysis& analysis, const Uses& uses);

}  // namespace turbolstm
