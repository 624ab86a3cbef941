#pragma once

#include <vector>

#include "graph/graph.h"

namespace turbolstm {

// One read of a value, seen through slices and delayed identities.
struct Use {
  NodeId reader = kNoNode;
  bool delayed = false;
  bool has_init = false;  // of the delay
  bool as_init = false;   // the value is the initial value of what is read
};

// Elements of one row of a value; of a Static one, all.
int64_t RowWidth(const Node& node);

// An operand seen through slices and delayed identities: columns of a value, delayed.
struct ResolvedEdge {
  NodeId value = kNoNode;
  int64_t column = 0;
  int64_t width = 0;
  int32_t delay = 0;
  Direction direction = Direction::kForward;
  bool adjoint = false;
  NodeId init = kNoNode;
  int64_t init_column = 0;
  int64_t init_stride = 0;
};

// Which nodes are only ways to look at another value, and who reads what through them.
class Uses {
 public:
  explicit Uses(const Graph& graph);

  bool IsView(NodeId id) const { return view_[static_cast<size_t>(id)]; }
  bool IsOutput(NodeId id) const { return output_[static_cast<size_t>(id)]; }
  // Reads of the value by nodes that are no views; outputs are not counted.
  const std::vector<Use>& of(NodeId id) const { return uses_[static_cast<size_t>(id)]; }
  ResolvedEdge Resolve(const Node& reader, const Edge& edge) const;
  // Whether the reader looks at some columns of the value only.
  bool ReadsPart(NodeId reader, NodeId value) const;
  // The value that a view looks at, or the node itself.
  NodeId Base(NodeId id) const;

 private:
  bool CanBeView(NodeId id, const std::vector<bool>& read_delayed) const;
  // Whether a view looks at a value through a delay.
  bool ReadsDelayedView(NodeId id) const;

  const Graph& graph_;
  std::vector<bool> view_;
  std::vector<bool> output_;
  std::vector<std::vector<Use>> uses_;
};

}  // namespace turbolstm
