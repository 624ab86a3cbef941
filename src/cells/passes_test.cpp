#include "graph/passes/passes.h"

#include <gtest/gtest.h>

#include "cells/cell.h"
#include "graph/analysis.h"
#include "graph/autodiff.h"
#include "graph/interpreter.h"
#include "testing/random_bindings.h"

namespace turbolstm {
namespace {

constexpr double kTolerance = 1e-12;

// Outputs and the gradients of all inputs and parameters, as a training step has them.
Graph TrainingGraphOf(const Cell& cell) {
  Graph graph;
  Builder builder(&graph);
  CellOptions options;
  options.input = 5;
  options.hidden = 6;
  options.projection = cell.projects ? 3 : 0;
  options.heads = 2;
  const CellResult result =
      cell.Build(&builder, builder.Input("x", Domain::kStep, {options.input}), options);
  graph.AddOutput("y", result.output.id());
  std::vector<NodeId> wrt;
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Op op = graph.node(id).op;
    if (op == Op::kParameter || op == Op::kInput) wrt.push_back(id);
  }
  const NodeId ones = Ones(&graph);
  const std::vector<NodeId> gradients = Gradients(&graph, {{result.output.id(), ones}}, wrt);
  for (size_t i = 0; i < wrt.size(); ++i) {
    graph.AddOutput("grad/" + graph.node(wrt[i]).name, gradients[i]);
  }
  return graph;
}

// How many matrix products each loop with products has, forward loops first.
std::vector<int> ProductsInLoops(const Graph& graph) {
  std::vector<int> forward;
  std::vector<int> reverse;
  for (const Region& region : Analyse(graph).regions) {
    if (!region.is_loop()) continue;
    int products = 0;
    for (const NodeId id : region.nodes) products += Traits(graph.node(id).op).matrix;
    if (products > 0) {
      (region.direction == Direction::kForward ? forward : reverse).push_back(products);
    }
  }
  forward.insert(forward.end(), reverse.begin(), reverse.end());
  return forward;
}

class CellPasses : public testing::TestWithParam<Cell> {};

TEST_P(CellPasses, KeepWhatTheGraphMeans) {
  const Graph before = TrainingGraphOf(GetParam());
  Graph after = before;
  RunPasses(&after, StandardPasses());
  EXPECT_LT(after.size(), before.size());
  const Bindings bindings = RandomBindings(before, 1, {});
  const std::map<std::string, Array> wanted = Interpret(before, bindings);
  for (const auto& [name, array] : Interpret(after, bindings)) {
    const Array& other = wanted.at(name);
    ASSERT_EQ(array.shape, other.shape) << name;
    for (size_t i = 0; i < array.data.size(); ++i) {
      EXPECT_NEAR(array.data[i], other.data[i], kTolerance) << name << " at " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, CellPasses, testing::ValuesIn(AllCells()),
                         [](const testing::TestParamInfo<Cell>& cell) {
                           return std::string(cell.param.name);
                         });

// One product a level is what a step costs: no pass may leave more, nor may backward need more.
TEST(CellProducts, LeaveAsFewProductsInTheLoopsAsTheEquationsNeed) {
  const std::map<std::string_view, std::vector<int>> wanted = {
      {"rnn_tanh", {1, 1}},
      {"rnn_relu", {1, 1}},
      {"lstm", {1, 1}},
      {"gru", {1, 1}},
      {"gru_original", {2, 2}},
      {"lstm_projection", {2, 2}},
      {"peephole_lstm", {1, 1}},
      {"layer_norm_lstm", {1, 1}},
      {"mgu", {2, 2}},
      {"indrnn", {}},
      {"trnn", {}},
      {"tau_gru", {2, 2}},
      {"scrn", {2, 2}},
      {"slstm", {1, 1}},
  };
  for (const Cell& cell : AllCells()) {
    Graph graph = TrainingGraphOf(cell);
    RunPasses(&graph, StandardPasses());
    EXPECT_EQ(ProductsInLoops(graph), wanted.at(cell.name)) << cell.name;
  }
}

}  // namespace
}  // namespace turbolstm
