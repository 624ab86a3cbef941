#include <algorithm>

#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"
#include "graph/shapes.h"

namespace turbolstm {
namespace {

struct Part {
  int64_t begin = 0;
  int64_t size = 0;
  Edge edge;
};

NodeId AddLike(Graph* graph, const Node& like, Op op, std::vector<Edge> inputs,
               std::vector<int64_t> features = {}) {
  return AddInferred(graph, {.op = op,
                             .domain = like.domain,
                             .direction = like.direction,
                             .inputs = std::move(inputs),
                             .features = std::move(features)});
}

NodeId Zeros(Graph* graph, const Node& like, int64_t n) {
  const NodeId constant = AddInferred(graph, {.op = Op::kConstant});
  return AddLike(graph, like, Op::kIdentity, {{constant}}, {n});
}

// Whether the operand can become a part of a concatenation in the sum's place: a pad as wide as
// the sum, not one that the sum stretches, and one that looks at its operand as the sum would.
bool IsPart(const Graph& graph, const Node& sum, const Edge& edge) {
  const Node& pad = graph.node(edge.source);
  return edge.delay == 0 && pad.op == Op::kPad && pad.features == sum.features &&
         (pad.inputs[0].delay == 0 || pad.direction == sum.direction);
}

// These operands of a sum, by where they begin.
std::vector<Part> PadsOf(const Graph& graph, const Node& sum) {
  std::vector<Part> parts;
  for (const Edge& edge : sum.inputs) {
    if (!IsPart(graph, sum, edge)) continue;
    const Node& pad = graph.node(edge.source);
    const Edge& inner = pad.inputs[0];
    parts.push_back({pad.attributes.begin, graph.node(inner.source).features[0], inner});
  }
  std::sort(parts.begin(), parts.end(),
            [](const Part& a, const Part& b) { return a.begin < b.begin; });
  return parts;
}

bool Overlap(const std::vector<Part>& parts) {
  for (size_t i = 1; i < parts.size(); ++i) {
    if (parts[i - 1].begin + parts[i - 1].size > parts[i].begin) return true;
  }
  return false;
}

NodeId ConcatOf(Graph* graph, const Node& sum, const std::vector<Part>& parts) {
  std::vector<Edge> inputs;
  int64_t end = 0;
  for (const Part& part : parts) {
    if (part.begin > end) inputs.push_back({Zeros(graph, sum, part.begin - end)});
    inputs.push_back(part.edge);
    end = part.begin + part.size;
  }
  if (end < sum.features[0]) inputs.push_back({Zeros(graph, sum, sum.features[0] - end)});
  return AddLike(graph, sum, Op::kConcat, std::move(inputs));
}

}  // namespace

void MergePads(Graph* graph) {
  const NodeId count = graph->size();
  for (NodeId id = 0; id < count; ++id) {
    const Node sum = graph->node(id);  // a copy: adding nodes moves the original
    if (sum.op != Op::kAdd || sum.domain == Domain::kStatic) continue;
    const std::vector<Part> parts = PadsOf(*graph, sum);
    if (parts.empty() || Overlap(parts)) continue;
    const NodeId concat = ConcatOf(graph, sum, parts);
    std::vector<Edge> inputs = {{concat}};
    for (const Edge& edge : sum.inputs) {
      if (!IsPart(*graph, sum, edge)) inputs.push_back(edge);
    }
    graph->node(id).inputs = std::move(inputs);
  }
  Simplify(graph);
}

}  // namespace turbolstm
