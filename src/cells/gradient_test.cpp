#include <gtest/gtest.h>

#include <cmath>

#include "cells/cell.h"
#include "graph/analysis.h"
#include "graph/autodiff.h"
#include "testing/gradient_check.h"
#include "testing/random_bindings.h"

namespace turbolstm {
namespace {

struct Variant {
  Direction direction = Direction::kForward;
  bool bias = true;
  bool initial = true;
};

constexpr Variant kVariants[] = {
    {Direction::kForward, true, true},
    {Direction::kReverse, true, true},
    {Direction::kForward, false, false},
};

// Outputs: y and the final states.
Graph GraphOf(const Cell& cell, const Variant& variant) {
  Graph graph;
  Builder builder(&graph, variant.direction);
  CellOptions options;
  options.input = 5;
  options.hidden = 6;
  options.projection = cell.projects ? 3 : 0;
  options.heads = 3;
  options.delay = 3;
  options.bias = variant.bias;
  CellPlace place;
  place.initial = [&](const std::string& state, int64_t n) {
    return variant.initial ? builder.Input(state + "_0", Domain::kBatch, {n}) : Value();
  };
  const Value x = builder.Input("x", Domain::kStep, {options.input});
  const CellResult result = cell.Build(&builder, x, options, place);
  graph.AddOutput("y", result.output.id());
  for (const CellState& state : result.states) {
    graph.AddOutput(state.name + "_n", state.final.id());
  }
  return graph;
}

class CellGradients : public testing::TestWithParam<Cell> {
 protected:
  static Bindings BindingsFor(const Graph& graph, uint64_t seed, int64_t steps) {
    RandomBindingsOptions options;
    options.steps = steps;
    options.resets = seed % 2 == 1 ? 0.2 : 0.0;
    Bindings bindings = RandomBindings(graph, seed, options);
    // slstm divides by its normaliser, which a real past never leaves near zero.
    if (GetParam().name == "slstm" && bindings.values.contains("n_0")) {
      for (double& n : bindings.values["n_0"].data) n = 1.0 + std::abs(n);
    }
    return bindings;
  }
};

TEST_P(CellGradients, EqualCentralDifferences) {
  for (const Variant& variant : kVariants) {
    const Graph graph = GraphOf(GetParam(), variant);
    for (uint64_t seed = 0; seed < 4; ++seed) {
      EXPECT_EQ(CheckGradients(graph, BindingsFor(graph, seed, 7), seed), "") << "seed " << seed;
    }
  }
}

TEST_P(CellGradients, SecondDerivativesEqualCentralDifferences) {
  const Graph graph = GraphOf(GetParam(), kVariants[0]);
  EXPECT_EQ(CheckGradients(graph, BindingsFor(graph, 1, 4), 1, 2), "");
}

TEST_P(CellGradients, BackwardHasAsManyLoopsWithAsManyLevels) {
  Graph graph = GraphOf(GetParam(), kVariants[0]);
  const auto levels = [](const Graph& g) {
    std::map<std::pair<Direction, int>, int> count;
    for (const Region& region : Analyse(g).regions) {
      if (region.is_loop()) ++count[{region.direction, region.levels}];
    }
    return count;
  };
  const auto before = levels(graph);
  std::vector<Cotangent> cotangents;
  std::vector<NodeId> wrt;
  for (const auto& [name, id] : graph.outputs()) cotangents.push_back({id, Ones(&graph)});
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Op op = graph.node(id).op;
    if (op == Op::kParameter || op == Op::kInput) wrt.push_back(id);
  }
  for (const NodeId id : Gradients(&graph, cotangents, wrt)) EXPECT_NE(id, kNoNode);
  const auto after = levels(graph);
  for (const auto& [key, count] : before) {
    EXPECT_EQ(after.at(key), count);
    EXPECT_EQ(after.at({Opposite(key.first), key.second}), count);
  }
  EXPECT_EQ(after.size(), 2 * before.size());
}

INSTANTIATE_TEST_SUITE_P(All, CellGradients, testing::ValuesIn(AllCells()),
                         [](const testing::TestParamInfo<Cell>& cell) {
                           return std::string(cell.param.name);
                         });

}  // namespace
}  // namespace turbolstm
