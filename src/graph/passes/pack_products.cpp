#include <map>
#include <tuple>

#include "base/index.h"
#include "graph/analysis.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"
#include "graph/shapes.h"

namespace turbolstm {
namespace {

// One product with the weights stacked; each former product is a slice of it.
void Stack(Graph* graph, const std::vector<NodeId>& products) {
  const Node first = graph->node(products.front());
  std::vector<Edge> weights;
  for (const NodeId id : products) weights.push_back(graph->node(id).inputs[0]);
  const NodeId weight =
      AddInferred(graph, {Op::kConcat, Domain::kStatic, first.direction, weights});
  const NodeId product =
      AddInferred(graph, {Op::kMatMul, first.domain, first.direction, {{weight}, first.inputs[1]}});
  int64_t begin = 0;
  for (const NodeId id : products) {
    const int64_t size = graph->node(id).features[0];
    const NodeId slice = AddInferred(
        graph,
        {Op::kSlice, first.domain, first.direction, {{product}}, {.begin = begin, .size = size}});
    ReplaceUses(graph, id, slice);
    begin += size;
  }
}

}  // namespace

void PackProducts(Graph* graph) {
  const Analysis analysis = Analyse(*graph);
  for (const Region& region : analysis.regions) {
    if (region.kind != RegionKind::kGemmLoop) continue;
    std::map<std::tuple<NodeId, int32_t, NodeId, bool>, std::vector<NodeId>> by_operand;
    for (const NodeId id : region.nodes) {
      const Node& node = graph->node(id);
      // Block-diagonal weights do not stack, and a delayed weight is none.
      if (node.op != Op::kMatMul || node.inputs[0].delay > 0 ||
          graph->node(node.inputs[0].source).features.size() != 2) {
        continue;
      }
      const Edge& x = node.inputs[1];
      by_operand[{x.source, x.delay, x.init, x.adjoint}].push_back(id);
    }
    for (const auto& [operand, products] : by_operand) {
      if (products.size() > 1) Stack(graph, products);
    }
  }
  Simplify(graph);
}

}  // namespace turbolstm
