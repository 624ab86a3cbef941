// Options and values that went wrong elsewhere, on an NVIDIA GPU: rows 13-15, 22, 24, 32, 33 and 42
// of the list of faults reported to others.

#include <algorithm>
#include <cmath>

#include "execution/gpu_runs.h"

namespace turbolstm {
namespace {

class GpuOptions : public GpuTest {};

// Row 13; the layout with sequences first is the caller's matter in C++.
TEST_P(GpuOptions, LayersDirectionsInitialStatesAndBiasesAgreeWithTheInterpreter) {
  for (int kind = 0; kind < 16; ++kind) {
    RecurrentOptions options = OptionsOf(5, 16);
    options.layers = 1 + kind % 2;
    options.bidirectional = kind / 2 % 2 == 1;
    options.initial = kind / 4 % 2 == 1 ? InitialState::kGiven : InitialState::kZero;
    options.size.bias = kind / 8 % 2 == 1;
    const Graph graph = WithGradients(RecurrentGraph(options));
    const Bindings bindings = RandomBindings(graph, 21, {.steps = 6, .batch = 3, .ragged = false});
    cuda::CudaExecutable execution(graph, device());
    EXPECT_EQ(Differences(graph, bindings, RunTwice(&execution, bindings), tolerance()), "")
        << options.layers << " layers" << (options.bidirectional ? ", both directions" : "")
        << (kind / 4 % 2 == 1 ? ", given states" : "") << (options.size.bias ? ", biases" : "");
  }
}

class GpuMasks : public GpuTest {
 protected:
  RecurrentOptions TwoLayers(double dropout) const {
    RecurrentOptions options = OptionsOf(5, 16);
    options.layers = 2;
    options.dropout = dropout;
    return options;
  }
  const RandomBindingsOptions training_{.steps = 8, .batch = 4, .ragged = true, .training = true};
};

// Row 14: what the second layer sees is dropped in the backward pass too; certain dropout is
// finite.
TEST_P(GpuMasks, DropoutBetweenLayersHasItsGradient) {
  const Graph graph = WithGradients(RecurrentGraph(TwoLayers(0.5)));
  const Bindings bindings = RandomBindings(graph, 1, training_);
  cuda::CudaExecutable execution(graph, device());
  EXPECT_EQ(Differences(graph, bindings, RunTwice(&execution, bindings), tolerance()), "");
}

TEST_P(GpuMasks, CertainDropoutZeroesAndStaysFinite) {
  const Graph graph = WithGradients(RecurrentGraph(TwoLayers(1)));
  Bindings bindings = RandomBindings(graph, 1, training_);
  for (auto& [name, array] : bindings.values) {
    // The first layer is to be seen through the second one alone.
    if (name.starts_with("cotangent.rnn.")) std::fill(array.data.begin(), array.data.end(), 0.0);
  }
  cuda::CudaExecutable execution(graph, device());
  const Outputs got = RunTwice(&execution, bindings);
  for (const auto& [name, values] : got) {
    EXPECT_TRUE(std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); }))
        << name;
  }
  for (const char* name : {"d.x", "d.rnn.weight_ih_l0", "d.rnn.weight_ih_l1"}) {
    const std::vector<float>& values = got.at(name);
    EXPECT_TRUE(std::all_of(values.begin(), values.end(), [](float v) { return v == 0; })) << name;
  }
}

// Row 15.
TEST_P(GpuMasks, AreDrawnAnewEachStepAndAgainFromTheSameSeed) {
  RecurrentOptions options = TwoLayers(0.5);
  options.zoneout = 0.2;
  options.recurrent_dropout = 0.3;
  const Graph graph = RecurrentGraph(options);
  Bindings bindings = RandomBindings(graph, 2, training_);
  cuda::CudaExecutable execution(graph, device());
  const auto output = [&](uint64_t seed, uint32_t step, bool training) {
    bindings.seed = seed;
    bindings.training_step = step;
    bindings.training = training;
    return RunAndRead(&execution, bindings).at("y");
  };
  const std::vector<float> first = output(5, 0, true);
  EXPECT_NE(output(5, 1, true), first);
  EXPECT_NE(output(6, 0, true), first);
  EXPECT_EQ(output(5, 0, true), first);
  EXPECT_EQ(output(5, 0, false), output(6, 1, false)) << "nothing is drawn outside training";
}

// Row 33: the gradient outside training is that of training without masks.
TEST_P(GpuMasks, GradientsOutsideTrainingEqualTrainingWithoutDropout) {
  const Graph without = WithGradients(RecurrentGraph(TwoLayers(0)));
  const Graph with = WithGradients(RecurrentGraph(TwoLayers(0.5)));
  Bindings bindings = RandomBindings(without, 4, training_);
  cuda::CudaExecutable plain(without, device());
  cuda::CudaExecutable masked(with, device());
  const Outputs wanted = RunTwice(&plain, bindings);
  bindings.training = false;
  EXPECT_EQ(Differences(wanted, RunTwice(&masked, bindings), tolerance()), "");
}

class GpuStates : public GpuTest {};

// Row 22: no initial state is a state of zeros.
TEST_P(GpuStates, NoneEqualsZeros) {
  RecurrentOptions options = OptionsOf(5, 16);
  options.layers = 2;
  const Graph without = RecurrentGraph(options);
  options.initial = InitialState::kGiven;
  const Graph given = RecurrentGraph(options);
  Bindings bindings = RandomBindings(given, 2, {.steps = 12, .batch = 3, .ragged = true});
  for (auto& [name, array] : bindings.values) {
    if (name.find("_0_l") != name.npos) std::fill(array.data.begin(), array.data.end(), 0.0);
  }
  cuda::CudaExecutable with_zeros(given, device());
  const Outputs zeros = RunTwice(&with_zeros, bindings);
  std::erase_if(bindings.values,
                [](const auto& entry) { return entry.first.find("_0_l") != std::string::npos; });
  cuda::CudaExecutable with_none(without, device());
  const Outputs none = RunTwice(&with_none, bindings);
  EXPECT_EQ(Differences(zeros, none, tolerance()), "");
  // In 16 bits values that begin with given ones are kept in other types.
  if (OperandType(GetParam().precision) == DType::kFloat32) {
    EXPECT_TRUE(none == zeros);
  }
}

// Every parameter and input zero.
Bindings Zeros(const Graph& graph, int64_t steps, int64_t batch) {
  Bindings bindings = RandomBindings(graph, 1, {.steps = steps, .batch = batch, .ragged = false});
  for (auto& [name, array] : bindings.values) std::fill(array.data.begin(), array.data.end(), 0.0);
  return bindings;
}

// Row 22 and G8: h is (1 - z) tanh(r b_hn) = tanh(1 / 2) / 2 at the first step.
TEST(GpuGru, AddsTheRecurrentBiasAtTheFirstStep) {
  SKIP_WITHOUT_GPU();
  RegisterDeviceCellKernels();
  RecurrentOptions options;
  options.cell = "gru";
  options.size.input = 1;
  options.size.hidden = 1;
  const Graph graph = RecurrentGraph(options);
  Bindings bindings = Zeros(graph, 1, 1);
  bindings.values.at("rnn.bias_hh_l0").data[2] = 1;
  for (const Precision precision : kPrecisions) {
    cuda::CudaExecutable execution(graph, {.index = 0, .precision = precision});
    EXPECT_NEAR(RunAndRead(&execution, bindings).at("y")[0], 0.23105858, GpuTolerance(precision))
        << Name(precision);
  }
}

// Row 42 and G7: every gate is 1, so that c counts the steps; a cell carried in bf16 would stick at
// 256, one in fp16 at 2048. 6 units run step by step in every precision, 32 in a persistent kernel.
TEST_P(GpuStates, CellsCountInEveryPrecision) {
  for (const int64_t hidden : {6, 32}) {
    const Graph graph = RecurrentGraph(OptionsOf(4, hidden));
    cuda::CudaExecutable execution(graph, device());
    for (const int64_t steps : {1000, 3000}) {
      Bindings bindings = Zeros(graph, steps, 2);
      for (auto& [name, array] : bindings.values) {
        if (name.find("bias") != name.npos) std::fill(array.data.begin(), array.data.end(), 100.0);
      }
      const std::vector<float> c = RunAndRead(&execution, bindings).at("rnn.c_n_l0");
      EXPECT_EQ(c, std::vector<float>(static_cast<size_t>(2 * hidden), static_cast<float>(steps)));
    }
  }
}

// Row 24.
TEST(GpuLargeValues, SaturateLikeTheReference) {
  SKIP_WITHOUT_GPU();
  RegisterDeviceCellKernels();
  for (const char* cell : {"lstm", "gru", "gru_original", "rnn_tanh", "peephole_lstm"}) {
    const Graph graph = WithGradients(RecurrentGraph(SmallOptions(cell)));
    const Bindings bindings = LargeBindings(graph);
    for (const Precision precision :
         {Precision::kFloat32, Precision::kTf32, Precision::kBFloat16}) {
      cuda::CudaExecutable execution(graph, {.index = 0, .precision = precision});
      const Outputs got = RunAndRead(&execution, bindings);
      for (const auto& [name, values] : got) {
        EXPECT_TRUE(
            std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); }))
            << cell << " " << Name(precision) << " " << name;
      }
      if (precision != Precision::kFloat32) continue;
      EXPECT_EQ(Differences(graph, bindings, got, kFloat32Tolerance), "") << cell;
    }
  }
}

// Row 32: gradients of wide layers; a second run writes them again and does not add.
TEST_P(GpuStates, GradientsOfThreeWideLayersAgreeWithTheCpu) {
  RecurrentOptions options = OptionsOf(16, 1150);
  options.layers = 3;
  const Graph graph = WithGradients(RecurrentGraph(options));
  const Bindings bindings = RandomBindings(graph, 32, {.steps = 3, .batch = 2, .ragged = false});
  cuda::CudaExecutable execution(graph, device());
  EXPECT_EQ(Differences(Execute(graph, bindings, {}), RunTwice(&execution, bindings), tolerance()),
            "");
}

const auto kName = [](const auto& param) { return NameOf(param.param); };
const std::vector<GpuCase> kCases =
    GpuCases({"lstm", "gru"}, {Precision::kFloat32, Precision::kBFloat16});
INSTANTIATE_TEST_SUITE_P(Cells, GpuOptions, ::testing::ValuesIn(kCases), kName);
INSTANTIATE_TEST_SUITE_P(Cells, GpuMasks, ::testing::ValuesIn(kCases), kName);
INSTANTIATE_TEST_SUITE_P(Lstm, GpuStates, ::testing::ValuesIn(GpuCases({"lstm"})), kName);

}  // namespace
}  // namespace turbolstm
