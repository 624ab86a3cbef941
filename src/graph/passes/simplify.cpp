#include <map>
#include <tuple>

#include "base/index.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

namespace turbolstm {
namespace {

bool SameShape(const Graph& graph, NodeId a, NodeId b) {
  return graph.node(a).features == graph.node(b).features &&
         graph.node(a).domain == graph.node(b).domain;
}

bool IsOne(const Graph& graph, const Edge& edge) {
  const Node& node = graph.node(edge.source);
  return edge.delay == 0 && node.op == Op::kConstant && node.attributes.number == 1;
}

// The operand that is the node's own value, or kNoNode.
NodeId Forwarded(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const auto same = [&](const Edge& edge) {
    return edge.delay == 0 && edge.source != id && SameShape(graph, edge.source, id);
  };
  if ((node.op == Op::kIdentity || node.op == Op::kAdd || node.op == Op::kConcat) &&
      node.inputs.size() == 1 && same(node.inputs[0])) {
    return node.inputs[0].source;
  }
  if (node.op == Op::kMul) {
    if (IsOne(graph, node.inputs[0]) && same(node.inputs[1])) return node.inputs[1].source;
    if (IsOne(graph, node.inputs[1]) && same(node.inputs[0])) return node.inputs[0].source;
  }
  return kNoNode;
}

bool ForwardCopies(Graph* graph) {
  bool changed = false;
  const std::vector<int32_t> uses = UseCounts(*graph);
  for (NodeId id = 0; id < graph->size(); ++id) {
    if (uses[at(id)] == 0) continue;
    const NodeId source = Forwarded(*graph, id);
    if (source == kNoNode) continue;
    ReplaceUses(graph, id, source);
    changed = true;
  }
  return changed;
}

using EdgeKey = std::tuple<NodeId, int32_t, NodeId, bool, float, float>;
using NodeKey = std::tuple<Op, Domain, Direction, std::vector<int64_t>, std::vector<EdgeKey>,
                           double, double, double, int64_t, int64_t, int32_t, Domain, bool>;

NodeKey KeyOf(const Node& node) {
  std::vector<EdgeKey> edges;
  for (const Edge& e : node.inputs) {
    edges.emplace_back(e.source, e.delay, e.init, e.adjoint, e.zoneout, e.dropout);
  }
  const Attributes& a = node.attributes;
  const Direction direction = node.inputs.empty() ? Direction::kForward : node.direction;
  return {node.op, node.domain, direction, node.features, std::move(edges), a.number,       a.scale,
          a.mean,  a.begin,     a.size,    a.site,        a.domain,         node.recomputed};
}

bool IsNamedSource(const Node& node) {
  return node.op == Op::kInput || node.op == Op::kParameter;
}

bool MergeEqual(Graph* graph) {
  bool changed = false;
  std::map<NodeKey, NodeId> known;
  const std::vector<int32_t> uses = UseCounts(*graph);
  for (NodeId id = 0; id < graph->size(); ++id) {
    const Node& node = graph->node(id);
    if (IsNamedSource(node) || uses[at(id)] == 0) continue;
    const auto [it, added] = known.try_emplace(KeyOf(node), id);
    if (added) continue;
    ReplaceUses(graph, id, it->second);
    changed = true;
  }
  return changed;
}

}  // namespace

void Simplify(Graph* graph) {
  RemoveDeadNodes(graph);
  while (ForwardCopies(graph) | MergeEqual(graph)) {
    RemoveDeadNodes(graph);
  }
}

}  // namespace turbolstm
