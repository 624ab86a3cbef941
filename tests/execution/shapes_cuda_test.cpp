// Shapes at the edges of what is legal, on an NVIDIA GPU: rows 1-3, 5-7, 18, 55 and 63 of the list
// of faults reported to others.

#include <algorithm>
#include <cmath>

#include "base/error_test.h"
#include "execution/gpu_runs.h"

namespace turbolstm {
namespace {

class GpuShapes : public GpuTest {};

// Row 55, and 5: one sequence of one step.
TEST_P(GpuShapes, SmallSizesAgreeWithTheInterpreter) {
  const std::vector<int64_t> sizes = {1, 2, 17};
  for (const int64_t input : sizes) {
    for (const int64_t hidden : sizes) {
      const Graph graph = WithGradients(RecurrentGraph(OptionsOf(input, hidden)));
      cuda::CudaExecutable execution(graph, device());
      for (const int64_t steps : sizes) {
        for (const int64_t batch : sizes) {
          const Bindings bindings =
              RandomBindings(graph, 3, {.steps = steps, .batch = batch, .ragged = false});
          EXPECT_EQ(Differences(graph, bindings, RunTwice(&execution, bindings), tolerance()), "")
              << "T" << steps << " B" << batch << " I" << input << " H" << hidden;
        }
      }
    }
  }
}

// Row 63: of a size whose loops are persistent kernels where there are any.
TEST_P(GpuShapes, VeryShortSequencesAgreeWithTheInterpreter) {
  const Graph graph = WithGradients(RecurrentGraph(OptionsOf(8, 32)));
  cuda::CudaExecutable execution(graph, device());
  for (int64_t steps = 1; steps <= 8; ++steps) {
    for (const bool ragged : {false, true}) {
      const Bindings bindings =
          RandomBindings(graph, 4, {.steps = steps, .batch = 3, .ragged = ragged});
      EXPECT_EQ(Differences(graph, bindings, RunTwice(&execution, bindings), tolerance()), "")
          << "T" << steps << (ragged ? " ragged" : "");
    }
  }
}

void ExpectZero(const std::vector<float>& values, const std::string& name) {
  EXPECT_TRUE(std::all_of(values.begin(), values.end(), [](float v) { return v == 0; })) << name;
}

class GpuEdges : public GpuTest {
 protected:
  // An empty sequence hands its initial state on, and the gradient of its final state back.
  static void ExpectPassedThrough(const Outputs& got, const Bindings& bindings, int64_t b) {
    const auto bound = [&](const std::string& name) {
      return RowOf(Narrow(bindings.values.at(name)), 1, bindings.batch, b);
    };
    for (const auto& [name, values] : got) {
      if (!name.starts_with("rnn.") || name.find("_n_l") == name.npos) continue;
      EXPECT_EQ(RowOf(values, 1, bindings.batch, b), bound(InitialOf(name))) << name;
      EXPECT_EQ(RowOf(got.at("d." + InitialOf(name)), 1, bindings.batch, b),
                bound("cotangent." + name))
          << name;
    }
  }
};

// Row 1.
TEST_P(GpuEdges, EmptySequencesAmongOthers) {
  const Graph graph = TrainingGraph();
  Bindings bindings = RandomBindings(graph, 5, {.steps = 4, .batch = 4, .ragged = false});
  bindings.lengths = {0, 4, 0, 2};
  cuda::CudaExecutable execution(graph, device());
  const Outputs got = RunTwice(&execution, bindings);
  EXPECT_EQ(Differences(graph, bindings, got, tolerance()), "");
  for (const int64_t b : {0, 2}) {
    ExpectZero(RowOf(got.at("y"), 4, 4, b), "y");
    ExpectZero(RowOf(got.at("d.x"), 4, 4, b), "d.x");
    ExpectPassedThrough(got, bindings, b);
  }
}

// Row 2.
TEST_P(GpuEdges, NoSteps) {
  const Graph graph = TrainingGraph();
  const Bindings bindings = RandomBindings(graph, 6, {.steps = 0, .batch = 3, .ragged = false});
  cuda::CudaExecutable execution(graph, device());
  const Outputs got = RunTwice(&execution, bindings);
  EXPECT_TRUE(got.at("y").empty());
  EXPECT_TRUE(got.at("d.x").empty());
  for (int64_t b = 0; b < 3; ++b) ExpectPassedThrough(got, bindings, b);
  for (const Node& node : graph.nodes()) {
    if (node.op == Op::kParameter) ExpectZero(got.at("d." + node.name), node.name);
  }
}

// Row 3; the same executable then runs a batch that has sequences.
TEST_P(GpuEdges, NoSequences) {
  const Graph graph = TrainingGraph();
  cuda::CudaExecutable execution(graph, device());
  const Bindings none = RandomBindings(graph, 7, {.steps = 5, .batch = 0, .ragged = false});
  const Outputs got = RunTwice(&execution, none);
  for (const auto& [name, id] : graph.outputs()) {
    if (graph.node(id).domain == Domain::kStatic) {
      EXPECT_EQ(std::ssize(got.at(name)), ElementCount(graph.node(id).features));
      ExpectZero(got.at(name), name);
    } else {
      EXPECT_TRUE(got.at(name).empty()) << name;
    }
  }
  const Bindings some = RandomBindings(graph, 7, {.steps = 5, .batch = 2, .ragged = false});
  EXPECT_EQ(Differences(graph, some, RunTwice(&execution, some), tolerance()), "");
}

// Row 7: what is bound at padded steps reaches neither outputs nor gradients.
TEST_P(GpuEdges, PaddingIsNeverRead) {
  const Graph graph = TrainingGraph();
  cuda::CudaExecutable execution(graph, device());
  Bindings bindings = RandomBindings(graph, 11, {.steps = 6, .batch = 4, .ragged = false});
  bindings.lengths = {3, 6, 0, 1};
  const auto with_padding = [&](double padding) {
    for (const char* name : {"x", "cotangent.y"}) {
      Array& array = bindings.values.at(name);
      for (int64_t i = 0; i < std::ssize(array.data); ++i) {
        const int64_t row = i / array.shape[2];
        if (row / 4 < bindings.lengths[static_cast<size_t>(row % 4)]) continue;
        array.data[static_cast<size_t>(i)] = padding;
      }
    }
    return RunAndRead(&execution, bindings);
  };
  const Outputs got = with_padding(std::nan(""));
  for (const auto& [name, values] : got) {
    EXPECT_TRUE(std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); }))
        << name;
  }
  EXPECT_TRUE(with_padding(1e30) == got);
}

// Row 6.
TEST_P(GpuEdges, LengthsOutsideTheStepsAreNamed) {
  const Graph graph = TrainingGraph();
  cuda::CudaExecutable execution(graph, device());
  Bindings bindings = RandomBindings(graph, 9, {.steps = 6, .batch = 3, .ragged = false});
  const Outputs none = RunAndRead(&execution, bindings);
  const auto with = [&](const std::vector<int64_t>& lengths) {
    bindings.lengths = lengths;
    return RunAndRead(&execution, bindings);
  };
  EXPECT_EQ(Differences(none, with({6, 6, 6}), tolerance()), "");
  const Outputs before = with({6, 2, 3});
  ExpectParts(ErrorOf([&] { with({6, 7, 3}); }), {"[lengths] entry 1 is 7, wants 0 to 6"});
  ExpectParts(ErrorOf([&] { with({6, 2, -1}); }), {"[lengths] entry 2 is -1, wants 0 to 6"});
  EXPECT_TRUE(with({6, 2, 3}) == before) << "unusable after errors";
}

// Row 18: where 16 bits of a row's number overflow, and with them one axis of a grid of blocks.
class GpuManyRows : public GpuTest {
 protected:
  void Check(int64_t steps, int64_t batch, const RecurrentOptions& options, double allowed) const {
    const Graph graph = WithGradients(RecurrentGraph(options));
    const Bindings bindings =
        RandomBindings(graph, 5, {.steps = steps, .batch = batch, .ragged = false});
    cuda::CudaExecutable execution(graph, device());
    EXPECT_EQ(Differences(Execute(graph, bindings, {}), RunTwice(&execution, bindings), allowed),
              "")
        << steps << " steps of " << batch;
  }
};

TEST_P(GpuManyRows, Around65536AgreeWithTheCpu) {
  for (const auto& [steps, batch] : {std::pair<int64_t, int64_t>{1, 65535},
                                     {1, 65536},
                                     {1, 65537},
                                     {255, 257},
                                     {256, 256},
                                     {3, 65537}}) {
    Check(steps, batch, OptionsOf(5, 6), std::max(tolerance(), kLongSumTolerance));
  }
}

TEST_P(GpuManyRows, MillionsAgreeWithTheCpu) {
  Check(24, 100'003, OptionsOf(2, 4), std::max(tolerance(), kLongSumTolerance));
}

const auto kName = [](const auto& param) { return NameOf(param.param); };
INSTANTIATE_TEST_SUITE_P(Cells, GpuShapes, ::testing::ValuesIn(GpuCases({"lstm", "gru"})), kName);
INSTANTIATE_TEST_SUITE_P(Cells, GpuEdges,
                         ::testing::ValuesIn(GpuCases({"lstm", "gru"},
                                                      {Precision::kFloat32, Precision::kBFloat16})),
                         kName);
INSTANTIATE_TEST_SUITE_P(Cells, GpuManyRows,
                         ::testing::ValuesIn(GpuCases({"lstm", "gru"},
                                                      {Precision::kFloat32, Precision::kBFloat16})),
                         kName);

}  // namespace
}  // namespace turbolstm
