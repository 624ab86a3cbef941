// A layer that is large enough for bf16x6 to split its products, against fp32 on the CPU.

#include <gtest/gtest.h>

#include "execution/executable_cuda.h"
#include "execution/gpu_tolerance.h"
#include "execution/split_choice.h"
#include "plan/recurrent_graphs.h"
#include "testing/random_bindings.h"

namespace turbolstm {
namespace {

constexpr int64_t kSteps = 4, kBatch = 512, kUnits = 1024;

int SplitProductsOf(const LoweredGraph& graph) {
  int split = 0;
  for (const Group& group : graph.groups) {
    for (const Stage& stage : group.stages) {
      if (!IsProduct(stage)) continue;
      const int64_t count = group.is_loop() ? kBatch : kSteps * kBatch;
      split += IsSplitProduct(graph, stage, count, SplitRule::kWherePays) ? 1 : 0;
    }
  }
  return split;
}

TEST(SplitProductsOnGpu, LargeLayersAgreeWithTheCpuInFloat32) {
  SKIP_WITHOUT_GPU();
  RecurrentOptions options = SmallOptions("lstm");
  options.size.input = kUnits;
  options.size.hidden = kUnits;
  const Graph graph = WithGradients(RecurrentGraph(options));
  for (const bool ragged : {false, true}) {
    const Bindings bindings =
        RandomBindings(graph, 5, {.steps = kSteps, .batch = kBatch, .ragged = ragged});
    const Outputs wanted = Execute(graph, bindings, {});
    cuda::CudaExecutable execution(graph, {.index = 0, .precision = Precision::kBf16x6});
    EXPECT_EQ(SplitProductsOf(execution.lowered()), 6) << "of both passes, loops included";
    const Outputs got = RunAndRead(&execution, bindings);
    EXPECT_EQ(RunAndRead(&execution, bindings), got) << "the same run twice";
    for (const auto& [name, values] : wanted) {
      const std::vector<double> exact(values.begin(), values.end());
      EXPECT_EQ(Difference(name, exact, got.at(name), kLongSumTolerance), "");
    }
  }
}

// Pieces of some rows at once, with parts of sums that begin within them.
TEST(SplitProductsOnGpu, ManyRowsAgreeWithTheCpuInFloat32) {
  SKIP_WITHOUT_GPU();
  constexpr int64_t kManySteps = 21, kSequences = 256;
  static_assert(SplitRowsAtOnce(kManySteps * kSequences) < kManySteps * kSequences);
  RecurrentOptions options = SmallOptions("lstm");
  options.size.input = 24;
  options.size.hidden = 16;
  options.layers = 2;
  options.bidirectional = true;
  options.initial = InitialState::kGiven;
  const Graph graph = WithGradients(RecurrentGraph(options));
  cuda::CudaExecutable execution(
      graph, {.index = 0, .precision = Precision::kBf16x6, .split = SplitRule::kAlways});
  for (const bool ragged : {false, true}) {
    const Bindings bindings =
        RandomBindings(graph, 6, {.steps = kManySteps, .batch = kSequences, .ragged = ragged});
    const Outputs wanted = Execute(graph, bindings, {});
    const Outputs got = RunAndRead(&execution, bindings);
    EXPECT_EQ(RunAndRead(&execution, bindings), got) << "the same run twice";
    for (const auto& [name, values] : wanted) {
      const std::vector<double> exact(values.begin(), values.end());
      EXPECT_EQ(Difference(name, exact, got.at(name), kLongSumTolerance), "");
    }
  }
}

}  // namespace
}  // namespace turbolstm
