#include "plan/recompute.h"

#include <algorithm>
#include <map>
#include <vector>

#include "base/index.h"
#include "graph/analysis.h"
#include "graph/passes/rewrite.h"
#include "plan/grouping.h"
#include "plan/uses.h"

namespace turbolstm {
namespace {

bool IsCheap(Op op) {
  switch (op) {
    case Op::kIdentity:
    case Op::kAdd:
    case Op::kSub:
    case Op::kMul:
    case Op::kMax:
    case Op::kMin:
    case Op::kNeg:
    case Op::kRelu:
    case Op::kAbs:
      return true;
    default:
      return false;
  }
}

bool SamePlace(const ResolvedEdge& a, const ResolvedEdge& b) {
  return a.value == b.value && a.column == b.column && a.width == b.width && a.delay == b.delay;
}

enum class What : uint8_t { kCheapValues, kTanhOfStates };

class Recomputation {
 public:
  Recomputation(Graph* graph, What what)
      : graph_(*graph),
        uses_(*graph),
        grouping_(GroupNodesOf(*graph, Analyse(*graph), uses_)),
        what_(what) {}

  void Run() {
    const NodeId count = graph_.size();
    for (NodeId id = 0; id < count; ++id) {
      if (CanRecompute(id)) copies_.push_back(id);
    }
    for (const NodeId id : copies_) Redirect(id);
    RemoveDeadNodes(&graph_);
  }

 private:
  int32_t GroupOf(NodeId id) const { return grouping_.group_of[at(id)]; }
  bool IsPointwise(NodeId id) const { return grouping_.roles[at(id)] == Role::kPointwise; }

  // Whether no reader needs the value in memory once every later loop has a copy of its own.
  bool CanRecompute(NodeId id) const {
    const Node& node = graph_.node(id);
    if (!IsPointwise(id) || !IsWanted(node.op) || node.domain != Domain::kStep ||
        uses_.IsOutput(id) || !IsLoop(GroupOf(id))) {
      return false;
    }
    bool elsewhere = false;
    for (const Use& use : uses_.of(id)) {
      const Node& reader = graph_.node(use.reader);
      if (use.delayed || use.as_init || !IsPointwise(use.reader) || !ReadsItself(use.reader, id) ||
          RowWidth(reader) != RowWidth(node) || reader.domain != node.domain) {
        return false;
      }
      if (GroupOf(use.reader) == GroupOf(id)) continue;
      if (!IsLoop(GroupOf(use.reader)) || !HasOperands(GroupOf(use.reader), id)) return false;
      elsewhere = true;
    }
    return elsewhere;
  }

  bool IsWanted(Op op) const {
    return what_ == What::kTanhOfStates ? op == Op::kTanh : IsCheap(op);
  }

  bool IsLoop(int32_t group) const {
    return group >= 0 && grouping_.groups[static_cast<size_t>(group)].kind >= RegionKind::kScan;
  }

  // Reads the node, not columns of it.
  bool ReadsItself(NodeId reader, NodeId id) const {
    const std::vector<Edge>& inputs = graph_.node(reader).inputs;
    return std::none_of(inputs.begin(), inputs.end(), [&](const Edge& edge) {
      return edge.source != id && uses_.Resolve(graph_.node(reader), edge).value == id;
    });
  }

  // Whether the group's programs read all operands of the node as it does; of states, whether they
  // read them with a delay, so that these are kept anyway.
  bool HasOperands(int32_t group, NodeId id) const {
    const Node& node = graph_.node(id);
    return std::all_of(node.inputs.begin(), node.inputs.end(), [&](const Edge& edge) {
      const ResolvedEdge operand = uses_.Resolve(node, edge);
      const Domain domain = graph_.node(operand.value).domain;
      if (operand.delay > 0) return false;
      return domain == Domain::kStatic || IsReadBy(group, operand, id);
    });
  }

  bool IsReadBy(int32_t group, const ResolvedEdge& operand, NodeId except) const {
    const std::vector<Use>& uses = uses_.of(operand.value);
    return std::any_of(uses.begin(), uses.end(), [&](const Use& use) {
      if (use.reader == except || GroupOf(use.reader) != group || !IsPointwise(use.reader)) {
        return false;
      }
      const Node& reader = graph_.node(use.reader);
      return std::any_of(reader.inputs.begin(), reader.inputs.end(), [&](const Edge& edge) {
        const ResolvedEdge read = uses_.Resolve(reader, edge);
        if (what_ == What::kTanhOfStates) return read.value == operand.value && read.delay > 0;
        return SamePlace(read, operand);
      });
    });
  }

  // Readers in other groups read a copy that runs there.
  void Redirect(NodeId id) {
    std::map<int32_t, NodeId> copy_of;  // by group
    for (const Use& use : uses_.of(id)) {
      const int32_t group = GroupOf(use.reader);
      if (group == GroupOf(id)) continue;
      const auto [copy, added] = copy_of.try_emplace(group, kNoNode);
      if (added) copy->second = CopyFor(use.reader, id);
      for (Edge& edge : graph_.node(use.reader).inputs) {
        if (edge.source == id) edge.source = copy->second;
      }
    }
  }

  NodeId CopyFor(NodeId reader, NodeId id) {
    Node copy = graph_.node(id);
    copy.name.clear();
    copy.direction = graph_.node(reader).direction;
    return graph_.Add(std::move(copy));
  }

  Graph& graph_;
  Uses uses_;
  Grouping grouping_;
  What what_;
  std::vector<NodeId> copies_;
};

}  // namespace

void RecomputeCheapValues(Graph* graph) {
  Recomputation(graph, What::kCheapValues).Run();
}

void RecomputeTanhOfStates(Graph* graph) {
  Recomputation(graph, What::kTanhOfStates).Run();
}

}  // namespace turbolstm
