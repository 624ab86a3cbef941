// Dropout, zoneout and recurrent dropout as they are executed.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "plan/recurrent_graphs.h"
#include "testing/random_bindings.h"

namespace turbolstm {
namespace {

RecurrentOptions TwoLayers(const std::string& cell) {
  RecurrentOptions options = SmallOptions(cell);
  options.layers = 2;
  return options;
}

const RandomBindingsOptions kTraining{.steps = 8, .batch = 4, .ragged = true, .training = true};

TEST(RandomMasks, CertainDropoutZeroesAndStaysFinite) {
  for (const char* cell : {"lstm", "gru", "rnn_tanh"}) {
    RecurrentOptions options = TwoLayers(cell);
    options.dropout = 1;
    const Graph graph = WithGradients(RecurrentGraph(options));
    Bindings bindings = RandomBindings(graph, 1, kTraining);
    for (auto& [name, array] : bindings.values) {
      // The first layer is to be seen through the second one alone.
      if (name.starts_with("cotangent.rnn.")) std::fill(array.data.begin(), array.data.end(), 0.0);
    }
    const Outputs got = Execute(graph, bindings, {.streams = 2});
    for (const auto& [name, values] : got) {
      EXPECT_TRUE(std::all_of(values.begin(), values.end(), [](float v) {
        return std::isfinite(v);
      })) << name;
    }
    for (const char* name : {"d.x", "d.rnn.weight_ih_l0", "d.rnn.weight_ih_l1"}) {
      EXPECT_TRUE(std::all_of(got.at(name).begin(), got.at(name).end(), [](float v) {
        return v == 0;
      })) << name;
    }
    EXPECT_EQ(Differences(graph, bindings, got, kFloat32Tolerance), "");
  }
}

TEST(RandomMasks, AreDrawnAnewEachStepAndAgainFromTheSameSeed) {
  RecurrentOptions options = TwoLayers("lstm");
  options.dropout = 0.5;
  options.zoneout = 0.2;
  options.recurrent_dropout = 0.3;
  const Graph graph = RecurrentGraph(options);
  Bindings bindings = RandomBindings(graph, 2, kTraining);
  Executable executable(graph, {.streams = 2});
  const auto output = [&](uint64_t seed, uint32_t step, bool training) {
    bindings.seed = seed;
    bindings.training_step = step;
    bindings.training = training;
    RunOn(&executable, bindings);
    const std::span<const float> y = executable.Output("y");
    return std::vector<float>(y.begin(), y.end());
  };
  const std::vector<float> first = output(5, 0, true);
  EXPECT_NE(output(5, 1, true), first);
  EXPECT_NE(output(6, 0, true), first);
  EXPECT_EQ(output(5, 0, true), first);
  EXPECT_EQ(output(5, 0, false), output(6, 1, false)) << "nothing is drawn outside training";
}

class RandomMasksOfCells : public ::testing::TestWithParam<std::string> {};

TEST_P(RandomMasksOfCells, AgreeWithTheInterpreter) {
  struct Kind {
    double dropout, zoneout, recurrent_dropout;
  };
  for (const Kind& kind :
       {Kind{0.5, 0, 0}, Kind{0, 0.3, 0}, Kind{0, 0, 0.3}, Kind{0.2, 0.2, 0.2}}) {
    for (const bool training : {false, true}) {
      RecurrentOptions options = TwoLayers(GetParam());
      options.bidirectional = true;
      options.dropout = kind.dropout;
      options.zoneout = kind.zoneout;
      options.recurrent_dropout = kind.recurrent_dropout;
      const Graph graph = WithGradients(RecurrentGraph(options));
      RandomBindingsOptions how = kTraining;
      how.training = training;
      const Bindings bindings = RandomBindings(graph, 3, how);
      EXPECT_EQ(
          Differences(graph, bindings, Execute(graph, bindings, {.streams = 2}), kFloat32Tolerance),
          "");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cells, RandomMasksOfCells,
                         ::testing::Values("lstm", "gru", "rnn_tanh", "lstm_projection"),
                         [](const auto& param) { return param.param; });

// A layer evaluated for its input's gradient outside training is the one of training without masks.
TEST(RandomMasks, GradientsOutsideTrainingEqualTrainingWithoutDropout) {
  RecurrentOptions options = TwoLayers("lstm");
  const Graph without = WithGradients(RecurrentGraph(options));
  options.dropout = 0.5;
  const Graph with = WithGradients(RecurrentGraph(options));
  Bindings bindings = RandomBindings(without, 4, kTraining);
  const Outputs wanted = Execute(without, bindings, {.streams = 2});
  bindings.training = false;
  const Outputs got = Execute(with, bindings, {.streams = 2});
  for (const auto& [name, values] : wanted) {
    EXPECT_EQ(Difference(name, {values.begin(), values.end()}, got.at(name), kFloat32Tolerance),
              "");
  }
}

}  // namespace
}  // namespace turbolstm
