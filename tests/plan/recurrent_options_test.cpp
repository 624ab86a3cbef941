// Every combination of layers, directions, biases and initial states against the interpreter, with
// all gradients.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "ops/cpu_target.h"
#include "plan/recurrent_graphs.h"
#include "testing/random_bindings.h"

namespace turbolstm {
namespace {

struct Combination {
  std::string cell;
  int64_t layers;
  bool bidirectional;
  bool bias;
  InitialState initial;
};

std::vector<Combination> Combinations() {
  std::vector<Combination> all;
  for (const char* cell : {"lstm", "gru", "rnn_tanh", "lstm_projection"}) {
    for (const int64_t layers : {1, 2}) {
      for (const bool bidirectional : {false, true}) {
        for (const bool bias : {false, true}) {
          for (const InitialState initial :
               {InitialState::kZero, InitialState::kGiven, InitialState::kLearned}) {
            all.push_back({cell, layers, bidirectional, bias, initial});
          }
        }
      }
    }
  }
  return all;
}

std::string NameOf(const ::testing::TestParamInfo<Combination>& info) {
  const Combination& c = info.param;
  constexpr const char* kInitial[] = {"zero", "given", "learned"};
  return fmt::format("{}_l{}_{}_{}_{}", c.cell, c.layers, c.bidirectional ? "bi" : "uni",
                     c.bias ? "bias" : "nobias", kInitial[static_cast<int>(c.initial)]);
}

class RecurrentLayers : public ::testing::TestWithParam<Combination> {
 protected:
  Graph TrainingGraph() const {
    RecurrentOptions options = SmallOptions(GetParam().cell);
    options.layers = GetParam().layers;
    options.bidirectional = GetParam().bidirectional;
    options.size.bias = GetParam().bias;
    options.initial = GetParam().initial;
    return WithGradients(RecurrentGraph(options));
  }
};

TEST_P(RecurrentLayers, AgreeWithTheInterpreter) {
  const Graph graph = TrainingGraph();
  for (const bool ragged : {false, true}) {
    const Bindings bindings = RandomBindings(graph, 13, {.steps = 9, .batch = 5, .ragged = ragged});
    for (const CellKernels kernels : {CellKernels::kInterpreted, CellKernels::kCompiled}) {
      Choose(kernels, graph);
      EXPECT_EQ(
          Differences(graph, bindings, Execute(graph, bindings, {.streams = 2}), kFloat32Tolerance),
          "");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, RecurrentLayers, ::testing::ValuesIn(Combinations()), NameOf);

// Cells that are declared fast in fact run the code that was compiled for them.
TEST(CompiledKernels, ServeStackedBidirectionalLayers) {
  for (const char* cell : {"lstm", "gru", "rnn_tanh"}) {
    for (const bool training : {false, true}) {
      Model model;
      RecurrentOptions options = SmallOptions(cell);
      options.layers = 2;
      options.bidirectional = true;
      const Value x = model.builder().Input("x", Domain::kStep, {5});
      model.graph().AddOutput("y", Recurrent(model, "rnn", x, options).output.id());
      const Graph graph = training ? WithGradients(model.graph()) : model.graph();
      Choose(CellKernels::kCompiled, graph);
      const Executable executable(graph, {.streams = 1});
      int pointwise = 0;
      for (const Group& group : executable.lowered().groups) {
        for (const Stage& stage : group.stages) {
          pointwise += group.is_loop() && stage.kind == Stage::Kind::kPointwise;
        }
      }
      EXPECT_GT(pointwise, 0);
      EXPECT_EQ(CompiledLoopStages(executable), pointwise) << cell << ", training " << training;
    }
  }
}

// Or the tests that name a target would say nothing about it.
TEST(CompiledKernels, RunOnTheTargetThatTheEnvironmentNames) {
  const char* wanted = std::getenv("TURBOLSTM_CPU");
  if (wanted == nullptr) GTEST_SKIP() << "TURBOLSTM_CPU is not set";
  const Executable executable(RecurrentGraph(SmallOptions("lstm")), {.streams = 1});
  const std::vector<CpuTarget> available = AvailableCpuTargets();
  const bool has = std::any_of(available.begin(), available.end(),
                               [&](CpuTarget target) { return Name(target) == wanted; });
  EXPECT_EQ(Name(CurrentCpuTarget()), has ? wanted : Name(available.back()));
}

}  // namespace
}  // namespace turbolstm
