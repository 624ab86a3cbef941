// Execution in bf16: near the interpreter, with the same bits under every plan, and with states
// carried in fp32.

#include "base/bfloat16.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "graph/text.h"
#include "plan/recurrent_graphs.h"
#include "testing/random_bindings.h"
#include "testing/random_graph.h"
#include "testing/sanitized.h"

namespace turbolstm {
namespace {

constexpr Precision kBFloat16 = Precision::kBFloat16;

std::vector<ExecutableOptions> Plans() {
  return {
      {.precision = kBFloat16, .streams = 1},
      {.precision = kBFloat16, .streams = 2, .verify = true},
      {.precision = kBFloat16, .streams = 3, .time_block = 2, .row_tile = 1, .verify = true},
  };
}

// How far the answers move, relative to the largest magnitude of each (at least 1), when just what
// is given is rounded to bf16. Gradients of maxima and of divisions by small numbers may move far,
// and then no way of computing in bf16 could agree.
double Movement(const Graph& graph, const Bindings& bindings) {
  Bindings rounded = bindings;
  for (auto& [name, array] : rounded.values) {
    for (double& v : array.data) v = double{static_cast<float>(BFloat16(static_cast<float>(v)))};
  }
  const std::map<std::string, Array> moved = Interpret(graph, rounded);
  double most = 0;
  for (const auto& [name, array] : Interpret(graph, bindings)) {
    double scale = 1;
    for (const double v : array.data) scale = std::max(scale, std::abs(v));
    for (size_t i = 0; i < array.data.size(); ++i) {
      most = std::max(most, std::abs(moved.at(name).data[i] - array.data[i]) / scale);
    }
  }
  return most;
}

bool IsWellPosed(const Graph& graph, const Bindings& bindings) {
  return Movement(graph, bindings) <= kBFloat16Tolerance / 4;
}

// The first well-posed ones; with only_h the final states but h have no gradient.
Bindings WellPosedBindings(const Graph& graph, const RandomBindingsOptions& options, bool only_h) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Bindings bindings = RandomBindings(graph, seed, options);
    for (auto& [name, array] : bindings.values) {
      const bool is_of_state =
          name.starts_with("cotangent.rnn.") && !name.starts_with("cotangent.rnn.h");
      if (only_h && is_of_state) std::fill(array.data.begin(), array.data.end(), 0.0);
    }
    if (IsWellPosed(graph, bindings)) return bindings;
  }
  Fail("no well-posed bindings");
}

class BFloat16Cells : public ::testing::TestWithParam<std::string> {};

TEST_P(BFloat16Cells, AreNearTheInterpreter) {
  for (const bool ragged : {false, true}) {
    RecurrentOptions options = SmallOptions(GetParam());
    options.layers = 2;
    options.bidirectional = true;
    // sLSTM keeps c and n over exp(m), and m is a maximum: only what they make together, h, is
    // smooth, and only for states that it comes to itself.
    const bool stabilised = GetParam() == "slstm";
    options.initial = ragged && !stabilised ? InitialState::kGiven : InitialState::kZero;
    const Graph graph = WithGradients(RecurrentGraph(options));
    const Bindings bindings =
        WellPosedBindings(graph, {.steps = 7, .batch = 5, .ragged = ragged}, stabilised);
    for (const ExecutableOptions& plan : Plans()) {
      const Outputs got = Execute(graph, bindings, plan);
      EXPECT_EQ(Differences(graph, bindings, got, kBFloat16Tolerance), "");
      EXPECT_EQ(Execute(graph, bindings, plan), got) << "the same plan twice";
    }
  }
}

TEST_P(BFloat16Cells, ForwardBitsDependNeitherOnThePlanNorOnTheKernels) {
  RecurrentOptions options = SmallOptions(GetParam());
  options.layers = 2;
  const Graph graph = RecurrentGraph(options);
  const Bindings bindings = RandomBindings(graph, 3, {.steps = 9, .batch = 7, .resets = 0.1});
  Choose(CellKernels::kInterpreted, graph);
  const Outputs first = Execute(graph, bindings, Plans()[0]);
  Choose(CellKernels::kCompiled, graph);
  for (const ExecutableOptions& plan : Plans()) EXPECT_EQ(Execute(graph, bindings, plan), first);
}

INSTANTIATE_TEST_SUITE_P(Cells, BFloat16Cells, ::testing::ValuesIn(CellNames()),
                         [](const auto& param) { return param.param; });

// A sum that has grown a thousandfold still takes small addends; in bf16 it would stick at 256.
TEST(BFloat16, CarriedStatesAreKeptInFloat32) {
  Graph graph;
  Builder builder(&graph);
  const Value x = builder.Input("x", Domain::kStep, {2});
  const Value sum = builder.State("sum", 2);
  builder.Define(sum, sum.Previous() + x);
  graph.AddOutput("final", Final(sum.Previous()).id());
  Bindings bindings;
  bindings.steps = 1000;
  bindings.batch = 1;
  bindings.values["x"] = {{1000, 1, 2}, std::vector<double>(2000, 1.0)};
  for (const ExecutableOptions& plan : Plans()) {
    EXPECT_EQ(Execute(graph, bindings, plan).at("final"), (std::vector<float>{1000, 1000}));
  }
}

// Each step beats the last by less than bf16 can tell, so that its operands would seem equal to the
// comparison that says whose the gradient is, which runs behind the loop.
TEST(BFloat16, OperandsOfComparisonsAreKeptInFloat32) {
  for (const double sign : {1.0, -1.0}) {
    Graph graph;
    Builder builder(&graph);
    const Value x = builder.Input("x", Domain::kStep, {2});
    const Value y = Tanh(builder.Input("y", Domain::kStep, {2}));
    const Value best = builder.State("best", 2);
    const Value last = best.Previous() + x;
    builder.Define(best, sign > 0 ? Max(last, y) : Min(last, y));
    graph.AddOutput("best", best.id());
    const Graph training = WithGradients(graph);
    Bindings bindings = RandomBindings(training, 1, {.steps = 6, .batch = 3});
    for (size_t i = 0; i < bindings.values["y"].data.size(); ++i) {
      bindings.values["x"].data[i] = 0;
      bindings.values["y"].data[i] = sign * (0.5 + 1e-4 * static_cast<double>(i / 6));
    }
    for (const ExecutableOptions& plan : Plans()) {
      const Outputs got = Execute(training, bindings, plan);
      EXPECT_EQ(Differences(training, bindings, got, kBFloat16Tolerance), "");
    }
  }
}

class BFloat16Graphs : public ::testing::TestWithParam<int> {};

TEST_P(BFloat16Graphs, AreNearTheInterpreter) {
  const auto seed = static_cast<uint64_t>(GetParam());
  const Graph forward = RandomGraph(seed);
  const Graph graph = seed % 2 == 0 ? WithGradients(forward) : forward;
  const Bindings bindings = RandomBindings(graph, seed, RandomBindingsOptionsFor(seed));
  if (!IsWellPosed(graph, bindings)) GTEST_SKIP() << "hangs on rounding";
  const std::vector<ExecutableOptions> plans = Plans();
  const Outputs got = Execute(graph, bindings, plans[0]);
  EXPECT_EQ(Differences(graph, bindings, got, kBFloat16Tolerance), "") << "seed " << seed << "\n"
                                                                       << PrintGraph(graph);
}

INSTANTIATE_TEST_SUITE_P(Seeds, BFloat16Graphs, ::testing::Range(0, RandomCases(200)));

}  // namespace
}  // namespace turbolstm
