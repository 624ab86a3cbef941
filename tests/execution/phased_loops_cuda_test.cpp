// Loops with several products or sums over rows that run as one phased kernel: that their source
// compiles, and that they agree with the float64 interpreter.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "execution/device_lowering.h"
#include "execution/executable_cuda.h"
#include "execution/gpu_tolerance.h"
#include "execution/phased_match_cuda.h"
#include "ops/phased_loop/phased_emitter_cuda.h"
#include "ops/phased_loop/phased_tile_cuda.h"
#include "ops/pointwise/nvrtc_cuda.h"
#include "plan/recurrent_graphs.h"
#include "testing/random_bindings.h"

namespace turbolstm {
namespace {

constexpr int64_t kProcessors = 132;
constexpr int64_t kSharedBytes = 227 * 1024;
constexpr const char* kCells[] = {"layer_norm_lstm", "mgu", "gru_original"};

RecurrentOptions OptionsOf(const std::string& cell, int64_t hidden) {
  RecurrentOptions options = SmallOptions(cell);
  options.size.hidden = hidden;
  return options;
}

std::vector<cuda::PhasedMatch> Matches(const std::string& cell, int64_t hidden,
                                       Precision precision) {
  const LoweredGraph graph =
      LowerForDevice(WithGradients(RecurrentGraph(OptionsOf(cell, hidden))), precision);
  std::vector<cuda::PhasedMatch> matches;
  for (const Group& group : graph.groups) {
    if (auto match = cuda::MatchPhasedLoop(graph, group)) matches.push_back(*std::move(match));
  }
  return matches;
}

TEST(PhasedLoops, CompileWithoutADevice) {
  for (const char* cell : kCells) {
    for (const Precision precision : {Precision::kBFloat16, Precision::kTf32}) {
      const auto matches = Matches(cell, 40, precision);
      ASSERT_EQ(matches.size(), 2u) << cell;
      for (const cuda::PhasedMatch& match : matches) {
        const cuda::PhasedTile tile =
            cuda::ChoosePhasedTile(match.step, 40, kProcessors, kSharedBytes);
        ASSERT_GT(tile.parts, 0) << cell;
        const std::string source = cuda::EmitPhasedLoop(match.step, tile);
        EXPECT_FALSE(cuda::Nvrtc::Get().Compile(source, "sm_90").empty()) << cell;
      }
    }
  }
}

TEST(PhasedLoops, TilesHoldEverySequenceAndUnit) {
  for (const int64_t hidden : {8, 40, 256, 1024}) {
    for (const cuda::PhasedMatch& match :
         Matches("layer_norm_lstm", hidden, Precision::kBFloat16)) {
      for (const int64_t batch : {1, 16, 17, 64, 300}) {
        const cuda::PhasedTile tile =
            cuda::ChoosePhasedTile(match.step, batch, kProcessors, kSharedBytes);
        ASSERT_GT(tile.parts, 0) << hidden;
        EXPECT_LE(tile.parts * tile.groups, kProcessors);
        EXPECT_LE(tile.shared_bytes, kSharedBytes);
        EXPECT_GE(tile.parts * tile.units, hidden);
        EXPECT_GE(tile.groups * tile.tiles * tile.rounds * 16, batch);
      }
    }
  }
}

struct Case {
  std::string cell;
  Precision precision;
};
std::string NameOf(const Case& c) {
  return c.cell + "_" + std::string(Name(c.precision));
}
void PrintTo(const Case& c, std::ostream* out) {
  *out << NameOf(c);
}

class PhasedLoopsOnGpu : public ::testing::TestWithParam<Case> {};

TEST_P(PhasedLoopsOnGpu, AgreeWithTheInterpreter) {
  SKIP_WITHOUT_GPU();
  const auto& [cell, precision] = GetParam();
  struct Shape {
    int64_t hidden, steps, batch;
    bool ragged, bidirectional;
    double resets = 0;
    InitialState initial = InitialState::kZero;
  };
  constexpr InitialState kGiven = InitialState::kGiven;
  for (const Shape& shape :
       {Shape{8, 6, 1, false, false}, Shape{40, 9, 17, true, true, 0.3, kGiven},
        Shape{136, 5, 40, true, false, 0, kGiven}, Shape{264, 4, 70, true, true, 0.2},
        Shape{520, 6, 130, false, false, 0, kGiven}, Shape{50, 3, 300, true, true}}) {
    RecurrentOptions options = OptionsOf(cell, shape.hidden);
    options.bidirectional = shape.bidirectional;
    options.initial = shape.initial;
    const Graph graph = WithGradients(RecurrentGraph(options));
    const Bindings bindings = RandomBindings(graph, 7,
                                             {.steps = shape.steps,
                                              .batch = shape.batch,
                                              .ragged = shape.ragged,
                                              .resets = shape.resets});
    cuda::CudaExecutable execution(graph,
                                   {.index = 0, .precision = precision, .phased_loops = true});
    const Outputs got = RunAndRead(&execution, bindings);
    EXPECT_EQ(execution.persistent_loops(), shape.bidirectional ? 4 : 2) << shape.hidden;
    EXPECT_EQ(RunAndRead(&execution, bindings), got) << "the same run twice";
    EXPECT_EQ(Differences(graph, bindings, got, GpuTolerance(precision, cell)), "") << shape.hidden;
  }
}

std::vector<Case> AllCases() {
  std::vector<Case> cases;
  for (const char* cell : kCells) {
    for (const Precision precision :
         {Precision::kTf32, Precision::kBFloat16, Precision::kFloat16, Precision::kBf16x6}) {
      cases.push_back({cell, precision});
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Cells, PhasedLoopsOnGpu, ::testing::ValuesIn(AllCases()),
                         [](const auto& param) { return NameOf(param.param); });

}  // namespace
}  // namespace turbolstm
