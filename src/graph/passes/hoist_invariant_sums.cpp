#include <algorithm>
#include <array>

#include "base/index.h"
#include "graph/analysis.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"
#include "graph/shapes.h"

namespace turbolstm {
namespace {

// Operands that are sums read by nobody else are summed here directly.
bool Flatten(Graph* graph, const std::vector<int32_t>& uses, NodeId id) {
  const Node sum = graph->node(id);
  std::vector<Edge> inputs;
  bool changed = false;
  for (const Edge& edge : sum.inputs) {
    const Node& operand = graph->node(edge.source);
    const bool inner = edge.delay == 0 && edge.source != id && operand.op == Op::kAdd &&
                       uses[at(edge.source)] == 1 && operand.features == sum.features &&
                       operand.domain == sum.domain && operand.direction == sum.direction;
    if (!inner) {
      inputs.push_back(edge);
      continue;
    }
    inputs.insert(inputs.end(), operand.inputs.begin(), operand.inputs.end());
    changed = true;
  }
  if (changed) graph->node(id).inputs = std::move(inputs);
  return changed;
}

NodeId AddSum(Graph* graph, const Node& like, std::vector<Edge> inputs) {
  const bool delayed =
      std::any_of(inputs.begin(), inputs.end(), [](const Edge& edge) { return edge.delay > 0; });
  return AddInferred(graph, {Op::kAdd, delayed ? Domain::kStep : Domain::kStatic, like.direction,
                             std::move(inputs)});
}

// How early an operand of a sum is known.
enum Phase : size_t { kParameters, kBeforeLoop, kWithinLoop, kPhases };

Phase PhaseOf(const Graph& graph, const Analysis& analysis, NodeId sum, const Edge& edge) {
  if (edge.delay == 0 && graph.node(edge.source).domain == Domain::kStatic) return kParameters;
  const int32_t home = analysis.region_of[at(sum)];
  const bool loop = analysis.regions[at(home)].is_loop();
  return loop && analysis.region_of[at(edge.source)] != home ? kBeforeLoop : kWithinLoop;
}

void Regroup(Graph* graph, const Analysis& analysis, NodeId id) {
  const Node sum = graph->node(id);
  std::array<std::vector<Edge>, kPhases> phases;
  for (const Edge& edge : sum.inputs) {
    phases[PhaseOf(*graph, analysis, id, edge)].push_back(edge);
  }
  std::vector<Edge> carried = std::move(phases[kParameters]);
  for (const Phase phase : {kBeforeLoop, kWithinLoop}) {
    if (phase == kBeforeLoop && phases[phase].empty()) continue;
    if (carried.size() > 1) carried = {{AddSum(graph, sum, std::move(carried))}};
    carried.insert(carried.begin(), phases[phase].begin(), phases[phase].end());
  }
  graph->node(id).inputs = std::move(carried);
}

}  // namespace

void HoistInvariantSums(Graph* graph) {
  for (bool changed = true; changed;) {
    changed = false;
    const std::vector<int32_t> uses = UseCounts(*graph);
    for (NodeId id = 0; id < graph->size(); ++id) {
      const Node& node = graph->node(id);
      if (node.op == Op::kAdd && uses[at(id)] > 0) changed |= Flatten(graph, uses, id);
    }
    if (changed) RemoveDeadNodes(graph);
  }
  const Analysis analysis = Analyse(*graph);
  const NodeId count = graph->size();
  for (NodeId id = 0; id < count; ++id) {
    const Node& node = graph->node(id);
    if (node.op == Op::kAdd && node.domain != Domain::kStatic && node.inputs.size() > 2) {
      Regroup(graph, analysis, id);
    }
  }
  Simplify(graph);
}

}  // namespace turbolstm
