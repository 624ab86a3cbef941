#include "graph/side_by_side.h"

#include <algorithm>

namespace turbolstm {
namespace {

void Append(const Graph& graph, const std::string& prefix, Graph* all) {
  const NodeId offset = all->size();
  int32_t sites = 0;  // draws of random masks that are there already
  for (const Node& node : all->nodes()) sites = std::max(sites, node.attributes.site + 1);
  for (Node node : graph.nodes()) {
    if (!node.name.empty()) node.name = prefix + node.name;
    node.attributes.site += sites;
    for (Edge& edge : node.inputs) {
      if (edge.source != kNoNode) edge.source += offset;
      if (edge.init != kNoNode) edge.init += offset;
    }
    all->Add(std::move(node));
  }
  for (const auto& [name, id] : graph.outputs()) all->AddOutput(prefix + name, id + offset);
}

}  // namespace

Graph SideBySide(const Graph& first, const Graph& second) {
  Graph all;
  Append(first, "first.", &all);
  Append(second, "second.", &all);
  return all;
}

}  // namespace turbolstm
