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

// Activations that only the backward pass reads are computed once more for it, from values that are
// kept anyway: states of loops (what is read with a delay), results that the forward pass reads
// outside their loop, inputs and parameters. With all steps of the states there, products by them
// are no recurrence any more: the copies run for all steps at once. They have the same operands in
// the same order, random masks the same site: they are equal to what they stand for. To be run
// behind the standard passes, on a graph with its gradients; without a loop that goes back over one
// of its own it changes nothing.
void RecomputeActivations(Graph* graph);

// The passes that make a graph ready for planning, in order.
const std::vector<Pass>& StandardPasses();

// Runs the passes but those named in `disabled`, and verifies the graph after each; an Error then
// names the pass.
void RunPasses(Graph* graph, const std::vector<Pass>& passes,
               const std::vector<std::string_view>& disabled = {});

}  // namespace turbolstm
