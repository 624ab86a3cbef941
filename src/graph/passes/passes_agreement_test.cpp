// Every pass, alone and in order, leaves the outputs of random graphs and of their gradients as
// the interpreter knows them.

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "graph/autodiff.h"
#include "graph/interpreter.h"
#include "graph/passes/passes.h"
#include "graph/text.h"
#include "testing/random_bindings.h"
#include "testing/random_graph.h"

namespace turbolstm {
namespace {

constexpr double kTolerance = 1e-9;  // relative; passes change the order of sums

// The graph with the gradients of all its inputs and parameters as further outputs.
Graph WithGradients(Graph graph) {
  std::vector<Cotangent> outputs;
  for (const auto& [name, id] : graph.outputs()) outputs.push_back({id, Ones(&graph)});
  std::vector<NodeId> wrt;
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    const bool source = node.op == Op::kInput || node.op == Op::kParameter;
    if (source && node.type == ValueType::kFloat) wrt.push_back(id);
  }
  const std::vector<NodeId> gradients = Gradients(&graph, outputs, wrt);
  for (const NodeId id : gradients) {
    if (id != kNoNode) graph.AddOutput(fmt::format("gradient{}", graph.outputs().size()), id);
  }
  return graph;
}

// The first difference, or nothing.
std::string Difference(const std::map<std::string, Array>& wanted,
                       const std::map<std::string, Array>& got) {
  if (wanted.size() != got.size()) return "other outputs";
  for (const auto& [name, array] : wanted) {
    const auto found = got.find(name);
    if (found == got.end() || found->second.shape != array.shape)
      return name + " has another shape";
    for (size_t i = 0; i < array.data.size(); ++i) {
      const double a = array.data[i];
      const double b = found->second.data[i];
      if (std::abs(a - b) <= kTolerance * std::max(1.0, std::abs(a))) continue;
      return fmt::format("{} at {}: {}, wants {}", name, i, b, a);
    }
  }
  return "";
}

std::string RunPassesOn(uint64_t seed, const std::vector<Pass>& passes) {
  try {
    const Graph graph = WithGradients(RandomGraph(seed, {.operators = 16}));
    const Bindings bindings = RandomBindings(graph, seed, RandomBindingsOptionsFor(seed));
    Graph rewritten = graph;
    RunPasses(&rewritten, passes);
    return Difference(Interpret(graph, bindings), Interpret(rewritten, bindings));
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(Passes, KeepTheMeaningOfRandomGraphs) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    ASSERT_EQ(RunPassesOn(seed, StandardPasses()), "") << "seed " << seed;
  }
}

TEST(Passes, KeepItWhereActivationsAreRecomputed) {
  std::vector<Pass> passes = StandardPasses();
  passes.push_back({"recompute_activations", RecomputeActivations});
  for (uint64_t seed = 0; seed < 500; ++seed) {
    ASSERT_EQ(RunPassesOn(seed, passes), "") << "seed " << seed;
  }
}

TEST(Passes, KeepItEachAlone) {
  for (const Pass& pass : StandardPasses()) {
    SCOPED_TRACE(pass.name);
    for (uint64_t seed = 0; seed < 150; ++seed) {
      ASSERT_EQ(RunPassesOn(seed, {pass}), "") << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace turbolstm
