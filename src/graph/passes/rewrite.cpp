#include "graph/passes/rewrite.h"

#include "base/index.h"
#include "graph/analysis.h"

namespace turbolstm {
namespace {

std::vector<bool> LiveNodes(const Graph& graph) {
  std::vector<bool> live(at(graph.size()), false);
  std::vector<NodeId> stack;
  for (const auto& [name, id] : graph.outputs()) stack.push_back(id);
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Op op = graph.node(id).op;
    if (op == Op::kInput || op == Op::kParameter) stack.push_back(id);
  }
  while (!stack.empty()) {
    const NodeId id = stack.back();
    stack.pop_back();
    if (live[at(id)]) continue;
    live[at(id)] = true;
    for (const Edge& edge : graph.node(id).inputs) {
      stack.push_back(edge.source);
      if (edge.init != kNoNode) stack.push_back(edge.init);
    }
  }
  return live;
}

}  // namespace

std::vector<int32_t> UseCounts(const Graph& graph) {
  std::vector<int32_t> uses(at(graph.size()), 0);
  for (const Node& node : graph.nodes()) {
    for (const Edge& edge : node.inputs) {
      ++uses[at(edge.source)];
      if (edge.init != kNoNode) ++uses[at(edge.init)];
    }
  }
  for (const auto& [name, id] : graph.outputs()) ++uses[at(id)];
  return uses;
}

void ReplaceUses(Graph* graph, NodeId from, NodeId to) {
  for (NodeId id = 0; id < graph->size(); ++id) {
    for (Edge& edge : graph->node(id).inputs) {
      if (edge.source == from) edge.source = to;
      if (edge.init == from) edge.init = to;
    }
  }
  auto outputs = graph->outputs();
  for (auto& [name, id] : outputs) {
    if (id == from) id = to;
  }
  graph->SetOutputs(std::move(outputs));
  if (graph->node(to).name.empty()) std::swap(graph->node(to).name, graph->node(from).name);
}

void RemoveDeadNodes(Graph* graph) {
  const std::vector<bool> live = LiveNodes(*graph);
  std::vector<NodeId> new_id(at(graph->size()), kNoNode);
  std::vector<NodeId> order;
  for (const Region& region : Analyse(*graph).regions) {
    for (const NodeId id : region.nodes) {
      if (!live[at(id)]) continue;
      new_id[at(id)] = static_cast<NodeId>(order.size());
      order.push_back(id);
    }
  }
  Graph result;
  for (const NodeId id : order) {
    Node node = graph->node(id);
    for (Edge& edge : node.inputs) {
      edge.source = new_id[at(edge.source)];
      if (edge.init != kNoNode) edge.init = new_id[at(edge.init)];
    }
    result.Add(std::move(node));
  }
  auto outputs = graph->outputs();
  for (auto& [name, id] : outputs) id = new_id[at(id)];
  result.SetOutputs(std::move(outputs));
  *graph = std::move(result);
}

}  // namespace turbolstm
