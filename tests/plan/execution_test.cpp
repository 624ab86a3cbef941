// Every way of executing a graph agrees with the float64 interpreter.

#include <gtest/gtest.h>

#include <array>

#include "cells/cell.h"
#include "graph/passes/lower_transforms.h"
#include "graph/text.h"
#include "plan/comparison.h"
#include "testing/random_bindings.h"
#include "testing/random_graph.h"
#include "testing/sanitized.h"

namespace turbolstm {
namespace {

// By turns: the graph alone, with gradients, with gradients of gradients, with transforms, and with
// transforms and gradients.
struct Kind {
  int gradients;
  bool transforms;
};
constexpr std::array<Kind, 5> kKinds = {{{0, false}, {1, false}, {2, false}, {0, true}, {1, true}}};

RandomGraphOptions OptionsOf(const Kind& kind, bool delay_any) {
  RandomGraphOptions options;
  options.transforms = kind.transforms;
  options.delay_any = delay_any;
  if (kind.gradients == 2) options.operators = 10;  // they grow
  return options;
}

class RandomGraphs : public ::testing::TestWithParam<int> {};

TEST_P(RandomGraphs, AgreeWithTheInterpreter) {
  const auto seed = static_cast<uint64_t>(GetParam());
  const Kind& kind = kKinds[seed % kKinds.size()];
  const Graph drawn = RandomGraph(seed, OptionsOf(kind, seed / 10 % 2 == 1));
  Graph graph = drawn;
  LowerTransforms(&graph);  // the interpreter and differentiation want them so
  if (kind.gradients > 0) graph = WithGradients(graph);
  if (kind.gradients > 1) graph = WithGradients(graph, "2");
  const Graph& executed = kind.gradients == 0 ? drawn : graph;
  const Bindings bindings = RandomBindings(graph, seed, RandomBindingsOptionsFor(seed));
  const std::vector<ExecutableOptions> plans = VerifiedPlans();
  const ExecutableOptions& plan = plans[seed / 2 % plans.size()];
  const Outputs outputs = Execute(executed, bindings, plan);
  EXPECT_EQ(Differences(graph, bindings, outputs, kFloat32Tolerance), "") << "seed " << seed << "\n"
                                                                          << PrintGraph(drawn);
  EXPECT_EQ(Execute(executed, bindings, plan), outputs) << "the same plan twice, seed " << seed;
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomGraphs, ::testing::Range(0, RandomCases(1000)));

class AllCellsTest : public ::testing::TestWithParam<std::string> {};

Graph CellGraph(const std::string& name, Direction direction, bool given_states) {
  Graph graph;
  Builder builder(&graph, direction);
  const Cell& cell = FindCell(name);
  const Value x = builder.Input("x", Domain::kStep, {5});
  CellPlace place;
  if (given_states) {
    place.initial = [&](const std::string& state, int64_t n) {
      return builder.Input(state + "_0", Domain::kBatch, {n});
    };
  }
  CellOptions options;
  options.input = 5;
  options.hidden = 6;
  options.projection = cell.projects ? 3 : 0;
  options.heads = 2;
  const CellResult result = cell.Build(&builder, x, options, place);
  graph.AddOutput("y", result.output.id());
  for (const CellState& state : result.states) {
    graph.AddOutput(state.name + "_n", state.final.id());
  }
  return graph;
}

TEST_P(AllCellsTest, TrainingAgreesWithTheInterpreterUnderEveryPlan) {
  for (const Direction direction : {Direction::kForward, Direction::kReverse}) {
    for (const bool ragged : {false, true}) {
      const Graph graph = WithGradients(CellGraph(GetParam(), direction, ragged));
      const Bindings bindings =
          RandomBindings(graph, 7, {.steps = 7, .batch = 5, .ragged = ragged});
      for (const ExecutableOptions& plan : VerifiedPlans()) {
        EXPECT_EQ(Differences(graph, bindings, Execute(graph, bindings, plan), kFloat32Tolerance),
                  "");
      }
    }
  }
}

TEST_P(AllCellsTest, ForwardBitsDoNotDependOnThePlan) {
  const Graph graph = CellGraph(GetParam(), Direction::kForward, true);
  const Bindings bindings = RandomBindings(graph, 3, {.steps = 9, .batch = 7, .resets = 0.1});
  const Outputs first = Execute(graph, bindings, VerifiedPlans()[0]);
  for (const ExecutableOptions& plan : VerifiedPlans())
    EXPECT_EQ(Execute(graph, bindings, plan), first);
}

std::vector<std::string> CellNames() {
  std::vector<std::string> names;
  for (const Cell& cell : AllCells()) names.emplace_back(cell.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Cells, AllCellsTest, ::testing::ValuesIn(CellNames()),
                         [](const auto& param) { return param.param; });

}  // namespace
}  // namespace turbolstm
