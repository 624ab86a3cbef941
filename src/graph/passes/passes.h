#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace turbolstm {

// A pass rewrites a legal graph into a legal graph with the same outputs.
struct Pass {
  std::string_view name;
  void (*run)(Graph*);
};

// Merges equal nodes, forwards identities and sums of one, multiplies by one, drops dead nodes.
void Simplify(Graph* graph);
// A sum of pads that do not overlap becomes one concatenation (the adjoint of Split).
void MergePads(Graph* graph);
// In sums, what does not change within a loop is added outside it, and parameters beforehand.
void HoistInvariantSums(Graph* graph);
// Products of one loop with the same operand become one product with stacked weights.
void PackProducts(Graph* graph);

// The passes that make a graph ready for planning, in order.
const std::vector<Pass>& StandardPasses();

// Runs the passes but those named in `disabled`, and verifies the graph after each; an Error then
// names the pass.
void RunPasses(Graph* graph, const std::vector<Pass>& passes,
               const std::vector<std::string_view>& disabled = {});

}  // namespace turbolstm
