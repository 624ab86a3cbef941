// Loops that run as one persistent kernel: which they are, that their source compiles, and that
// they agree with the float64 interpreter.

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <utility>

#include "execution/device_lowering.h"
#include "execution/executable_cuda.h"
#include "execution/gpu_tolerance.h"
#include "execution/half_values.h"
#include "execution/persistent_match_cuda.h"
#include "ops/persistent_loop/emitter_cuda.h"
#include "ops/pointwise/nvrtc_cuda.h"
#include "plan/recurrent_graphs.h"
#include "testing/random_bindings.h"

namespace turbolstm {
namespace {

// Of an H200.
constexpr cuda::LoopRoom kRoom = {132, 227 * 1024, true};
// A layer whose loops have several tiles to a block.
constexpr int64_t kWideHidden = 520;
constexpr int64_t kManySequences = 128;

RecurrentOptions OptionsOf(const std::string& cell, int64_t hidden) {
  RecurrentOptions options = SmallOptions(cell);
  options.size.hidden = hidden;
  options.size.heads = 1;
  return options;
}

// Forward and backward loops that match, of a layer of this cell.
std::vector<cuda::LoopMatch> Matches(const LoweredGraph& graph) {
  std::vector<cuda::LoopMatch> matches;
  for (const Group& group : graph.groups) {
    if (auto match = cuda::MatchPersistentLoop(graph, group)) matches.push_back(*std::move(match));
  }
  return matches;
}

TEST(PersistentLoops, AreThoseWithOneProductAndOneProgram) {
  for (const char* cell : {"lstm", "gru", "rnn_tanh", "rnn_relu", "peephole_lstm"}) {
    const Graph graph = WithGradients(RecurrentGraph(OptionsOf(cell, 32)));
    const LoweredGraph lowered = LowerForDevice(graph, Precision::kBFloat16);
    EXPECT_EQ(Matches(lowered).size(), 2u) << cell;
    const BoundaryType fp32 = BoundaryType::kFloat32;
    EXPECT_EQ(Matches(LowerForDevice(graph, Precision::kBFloat16, fp32, true)).size(), 2u) << cell;
    const LoweredGraph half = LowerForDevice(graph, Precision::kBFloat16, BoundaryType::kOperand);
    EXPECT_EQ(Matches(half).size(), 2u) << cell << " with 16-bit inputs and outputs";
    EXPECT_EQ(Matches(LowerForDevice(graph, Precision::kBf16x6)).size(), 2u) << cell;
    EXPECT_TRUE(Matches(LowerForDevice(graph, Precision::kFloat32)).empty()) << cell;
  }
  for (const char* cell : {"mgu", "indrnn", "layer_norm_lstm"}) {
    const Graph graph = WithGradients(RecurrentGraph(OptionsOf(cell, 32)));
    EXPECT_TRUE(Matches(LowerForDevice(graph, Precision::kBFloat16)).empty()) << cell;
  }
}

TEST(PersistentLoops, CompileWithoutADevice) {
  for (const Precision precision :
       {Precision::kTf32, Precision::kBFloat16, Precision::kFloat16, Precision::kBf16x6}) {
    const Graph graph = WithGradients(RecurrentGraph(OptionsOf("gru", 40)));
    const bool half = OperandType(precision) != DType::kFloat32;
    const BoundaryType boundary = half ? BoundaryType::kOperand : BoundaryType::kFloat32;
    for (const cuda::LoopMatch& match : Matches(LowerForDevice(graph, precision, boundary))) {
      for (const bool clusters : {false, true}) {
        const cuda::LoopRoom room = {kRoom.processors, kRoom.shared_limit, clusters};
        const cuda::LoopTile tile = cuda::ChooseTile(match.step, 20, room);
        ASSERT_GT(tile.parts, 0);
        const bool in_clusters = clusters && !match.step.in_pieces;
        EXPECT_EQ(tile.exchange != cuda::Exchange::kMemory, in_clusters);
        const std::string source = cuda::EmitLoop(match.step, tile);
        const auto compiles = [&](const char* architecture) {
          return !cuda::Nvrtc::Get().Compile(source, architecture).empty();
        };
        EXPECT_TRUE(compiles("sm_90"));
        if (!clusters) {
          EXPECT_TRUE(compiles("sm_80"));
        }
      }
    }
  }
}

TEST(PersistentLoops, CompileForRowsThatBeginAnywhere) {
  const std::pair<int64_t, int64_t> cases[] = {{40, 16}, {44, 8}, {50, 4}, {17, 2}};
  for (const auto& [hidden, alignment] : cases) {
    const Graph graph = WithGradients(RecurrentGraph(OptionsOf("lstm", hidden)));
    const LoweredGraph lowered = LowerForDevice(graph, Precision::kBFloat16);
    for (const cuda::LoopMatch& match : Matches(lowered)) {
      EXPECT_EQ(match.step.alignment, alignment) << hidden;
      const cuda::LoopTile tile = cuda::ChooseTile(match.step, 20, kRoom);
      EXPECT_FALSE(cuda::Nvrtc::Get().Compile(cuda::EmitLoop(match.step, tile), "sm_90").empty());
    }
  }
}

// Warps with roles, and blocks that split the inner axis are further texts.
TEST(PersistentLoops, EveryTextCompiles) {
  const Graph graph = WithGradients(RecurrentGraph(OptionsOf("lstm", kWideHidden)));
  const auto matches = Matches(LowerForDevice(graph, Precision::kBFloat16));
  ASSERT_EQ(matches.size(), 2u);
  const auto& step = matches[1].step;
  std::set<std::pair<bool, bool>> texts;
  for (const cuda::LoopTile& tile : cuda::Tiles(step, 4 * kManySequences, kRoom)) {
    if (tile.exchange != cuda::Exchange::kMemory) continue;
    if (!texts.emplace(tile.finishing > 0, tile.splits > 1).second) continue;
    const std::string source = cuda::EmitLoop(step, tile);
    for (const char* architecture : {"sm_80", "sm_90a"}) {
      EXPECT_FALSE(cuda::Nvrtc::Get().Compile(source, architecture).empty());
    }
  }
  EXPECT_EQ(texts.size(), 4u);
}

// Every way to deal out a loop fits a multiprocessor of an H200.
TEST(PersistentLoops, TilesFit) {
  constexpr int64_t kRegisters = 65536;
  for (const int64_t hidden : {512, 650, 1024, 1536, 2048}) {
    const Graph graph = WithGradients(RecurrentGraph(OptionsOf("lstm", hidden)));
    for (const cuda::LoopMatch& match : Matches(LowerForDevice(graph, Precision::kBFloat16))) {
      for (const int64_t batch : {1, 64, 257}) {
        const auto tiles = cuda::Tiles(match.step, batch, kRoom);
        for (const cuda::LoopTile& tile : tiles) {
          const int64_t threads = cuda::BlockThreads(tile);
          const cuda::RoleRegisters registers = cuda::RegistersOf(tile);
          EXPECT_LE(threads, 1024);
          EXPECT_LE(tile.shared_bytes, kRoom.shared_limit);
          EXPECT_EQ(tile.parts % tile.splits, 0);
          EXPECT_GE(tile.parts * tile.units, hidden);
          EXPECT_GE(tile.groups * tile.tiles * tile.tile_rows, batch);
          EXPECT_LE(tile.parts * tile.groups, kRoom.processors);
          if (tile.finishing == 0) continue;
          EXPECT_LE(32 * (tile.warps * registers.multiplier + tile.finishing * registers.finisher +
                          4 * registers.mover),
                    kRegisters / threads / 8 * 8 * threads)
              << "registers that the block starts with";
        }
      }
    }
  }
}

TEST(PersistentLoops, LargeWeightsFitInRegistersAndSharedMemoryTogether) {
  for (const int64_t hidden : {1536, 2048}) {
    const Graph graph = WithGradients(RecurrentGraph(OptionsOf("lstm", hidden)));
    for (const cuda::LoopMatch& match : Matches(LowerForDevice(graph, Precision::kBFloat16))) {
      const cuda::LoopTile tile = cuda::ChooseTile(match.step, 16, kRoom);
      ASSERT_GT(tile.parts, 0) << hidden;
      EXPECT_GT(tile.held, 0);
      EXPECT_LT(tile.held, cuda::Pieces(match.step, tile));
    }
  }
}

TEST(PersistentLoops, TilesHoldEverySequenceAndUnit) {
  cuda::LoopStep step;
  step.products.resize(4);
  step.x_columns = {0};
  for (const int64_t hidden : {8, 40, 128, 512, 1024}) {
    step.units = hidden;
    step.columns = 4 * hidden;
    step.inner = hidden;
    for (const int64_t batch : {1, 16, 17, 64, 100, 1000}) {
      const cuda::LoopTile tile = cuda::ChooseTile(step, batch, kRoom);
      ASSERT_GT(tile.parts, 0) << hidden;
      EXPECT_LE(tile.parts * tile.groups, kRoom.processors);
      EXPECT_LE(tile.shared_bytes, kRoom.shared_limit);
      EXPECT_GE(tile.parts * tile.units, hidden);
      EXPECT_GE(tile.groups * tile.tiles * tile.tile_rows, batch);
    }
  }
  step.units = 4096;
  step.columns = 4 * 4096;
  step.inner = 4096;
  EXPECT_EQ(cuda::ChooseTile(step, 64, kRoom).parts, 0) << "weights that fit nowhere";
}

TEST(PersistentLoops, WarpsHaveRolesWhereThereAreSeveralTurns) {
  const Graph graph = WithGradients(RecurrentGraph(OptionsOf("lstm", kWideHidden)));
  for (const cuda::LoopMatch& match : Matches(LowerForDevice(graph, Precision::kBFloat16))) {
    const cuda::LoopTile tile = cuda::ChooseTile(match.step, 4 * kManySequences, kRoom);
    EXPECT_GT(tile.tiles, tile.together);
    EXPECT_GT(tile.finishing, 0);
  }
}

struct Case {
  std::string cell;
  Precision precision;
  BoundaryType boundary = BoundaryType::kFloat32;
  bool masks = false;  // zoneout and recurrent dropout, in training
};
std::string NameOf(const Case& c) {
  const bool half = c.boundary == BoundaryType::kOperand;
  return c.cell + "_" + std::string(Name(c.precision)) + (half ? "_outside_too" : "") +
         (c.masks ? "_with_masks" : "");
}
void PrintTo(const Case& c, std::ostream* out) {
  *out << NameOf(c);
}

class PersistentLoopsOnGpu : public ::testing::TestWithParam<Case> {};

TEST_P(PersistentLoopsOnGpu, AgreeWithTheInterpreter) {
  SKIP_WITHOUT_GPU();
  const auto& [cell, precision, boundary, masks] = GetParam();
  struct Shape {
    int64_t hidden, steps, batch;
    bool ragged, bidirectional;
    double resets = 0;
    InitialState initial = InitialState::kZero;
  };
  constexpr InitialState kGiven = InitialState::kGiven;
  for (const Shape& shape :
       {Shape{8, 6, 1, false, false}, Shape{40, 7, 17, true, true}, Shape{64, 5, 33, false, true},
        Shape{136, 4, 40, true, false}, Shape{256, 9, 70, true, true, 0, kGiven},
        Shape{16, 9, 18, true, true, 0.3, kGiven}, Shape{44, 8, 5, false, true, 0.3},
        Shape{17, 5, 18, true, true, 0.3, kGiven}, Shape{50, 6, 20, true, true, 0, kGiven},
        Shape{kWideHidden, 2, kManySequences, true, false, 0.2, kGiven}}) {
    RecurrentOptions options = OptionsOf(cell, shape.hidden);
    options.bidirectional = shape.bidirectional;
    options.initial = shape.initial;
    options.zoneout = masks ? 0.1 : 0;
    options.recurrent_dropout = masks ? 0.25 : 0;
    const Graph graph = WithGradients(RecurrentGraph(options));
    Bindings bindings = RandomBindings(graph, 7,
                                       {.steps = shape.steps,
                                        .batch = shape.batch,
                                        .ragged = shape.ragged,
                                        .resets = shape.resets});
    bindings.training = masks;
    if (boundary == BoundaryType::kOperand) RoundStepInputs(graph, precision, &bindings);
    cuda::CudaExecutable execution(graph,
                                   {.index = 0, .precision = precision, .boundary = boundary});
    const Outputs got = RunAndRead(&execution, bindings);
    EXPECT_EQ(execution.persistent_loops(), shape.bidirectional ? 4 : 2) << shape.hidden;
    EXPECT_EQ(RunAndRead(&execution, bindings), got) << "the same run twice";
    EXPECT_EQ(Differences(graph, bindings, got, GpuTolerance(precision)), "") << shape.hidden;
  }
}

// Weights that registers hold only in part, and blocks that share columns.
TEST_P(PersistentLoopsOnGpu, AgreeWithTheInterpreterWhereWide) {
  SKIP_WITHOUT_GPU();
  const auto& [cell, precision, boundary, masks] = GetParam();
  if (boundary == BoundaryType::kOperand || masks || precision == Precision::kBf16x6) GTEST_SKIP();
  struct Shape {
    int64_t hidden, steps, batch;
    bool ragged;
  };
  for (const Shape& shape : {Shape{650, 3, 65, true}, Shape{768, 2, 257, false},
                             Shape{1150, 3, 33, true}, Shape{2048, 3, 3, true}}) {
    if (precision == Precision::kTf32 && shape.hidden > 1024) continue;  // the weights fit nowhere
    RecurrentOptions options = OptionsOf(cell, shape.hidden);
    options.initial = InitialState::kGiven;
    const Graph graph = WithGradients(RecurrentGraph(options));
    const Bindings bindings = RandomBindings(graph, 7,
                                             {.steps = shape.steps,
                                              .batch = shape.batch,
                                              .ragged = shape.ragged,
                                              .resets = shape.ragged ? 0.2 : 0});
    cuda::CudaExecutable execution(graph, {.index = 0, .precision = precision});
    const Outputs got = RunAndRead(&execution, bindings);
    EXPECT_EQ(RunAndRead(&execution, bindings), got) << "the same run twice";
    EXPECT_EQ(Differences(graph, bindings, got, GpuTolerance(precision)), "")
        << shape.hidden << " with " << execution.persistent_loops() << " persistent loops";
  }
}

std::vector<Case> AllCases() {
  std::vector<Case> cases;
  for (const char* cell : {"lstm", "gru", "rnn_tanh"}) {
    for (const Precision precision :
         {Precision::kTf32, Precision::kBFloat16, Precision::kFloat16, Precision::kBf16x6}) {
      cases.push_back({cell, precision});
    }
    for (const Precision precision : {Precision::kBFloat16, Precision::kFloat16}) {
      cases.push_back({cell, precision, BoundaryType::kOperand});
    }
  }
  for (const char* cell : {"lstm", "gru", "peephole_lstm"}) {
    cases.push_back({cell, Precision::kFloat16, BoundaryType::kFloat32, true});
  }
  cases.push_back({"peephole_lstm", Precision::kBFloat16});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Cells, PersistentLoopsOnGpu, ::testing::ValuesIn(AllCases()),
                         [](const auto& param) { return NameOf(param.param); });

}  // namespace
}  // namespace turbolstm
