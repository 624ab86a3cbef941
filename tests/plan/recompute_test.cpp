// Activations that are computed again for the backward pass: the same gradients, less memory.

#include <gtest/gtest.h>

#include "execution/device_lowering.h"
#include "execution/memory_plan.h"
#include "plan/footprint.h"
#include "plan/recurrent_graphs.h"
#include "testing/random_bindings.h"

namespace turbolstm {
namespace {

constexpr int64_t kSteps = 100;
constexpr int64_t kBatch = 8;

ExecutableOptions Recomputing(ExecutableOptions options) {
  options.recompute = true;
  return options;
}

// Long enough for rings of blocks, cut finely.
const RandomBindingsOptions kTraining{.steps = 11, .batch = 4, .ragged = true, .training = true};
const ExecutableOptions kPlan{.streams = 2, .time_block = 2, .row_tile = 2, .verify = true};

// Outputs whose bits differ.
std::string OtherBits(const Outputs& a, const Outputs& b) {
  std::string names;
  for (const auto& [name, values] : a) {
    if (values != b.at(name)) names += name + " ";
  }
  return names;
}

// In blocks, sums over rows may go through these in another order. What belongs to a sequence has
// the same bits all the same, and everything has where all steps are one block.
void ExpectSameGradients(const RecurrentOptions& options) {
  const Graph graph = WithGradients(RecurrentGraph(options));
  const Bindings bindings = RandomBindings(graph, 4, kTraining);
  const Outputs got = Execute(graph, bindings, Recomputing(kPlan));
  EXPECT_EQ(Differences(graph, bindings, got, kFloat32Tolerance), "");
  Outputs wanted = Execute(graph, bindings, kPlan);
  for (const auto& [name, id] : graph.outputs()) {
    if (graph.node(id).domain == Domain::kStatic) wanted.erase(name);
  }
  EXPECT_EQ(OtherBits(wanted, got), "");

  ExecutableOptions one_block = kPlan;
  one_block.time_block = kTraining.steps;
  EXPECT_EQ(OtherBits(Execute(graph, bindings, one_block),
                      Execute(graph, bindings, Recomputing(one_block))),
            "");
}

class RecomputedCells : public ::testing::TestWithParam<std::string> {};

TEST_P(RecomputedCells, HaveTheSameGradients) {
  ExpectSameGradients(SmallOptions(GetParam()));
}

TEST_P(RecomputedCells, HaveTheSameGradientsInLayersOfBothDirections) {
  RecurrentOptions options = SmallOptions(GetParam());
  options.layers = 2;
  options.bidirectional = true;
  ExpectSameGradients(options);
}

// A mask that is drawn again is the same mask.
TEST_P(RecomputedCells, HaveTheSameGradientsWithRandomMasks) {
  RecurrentOptions options = SmallOptions(GetParam());
  options.layers = 2;
  options.residual = options.size.projection == 0;
  options.dropout = 0.4;
  options.zoneout = 0.2;
  options.recurrent_dropout = 0.3;
  ExpectSameGradients(options);
}

TEST_P(RecomputedCells, KeepNoMoreForTheBackwardPass) {
  const Graph graph = WithGradients(RecurrentGraph(SmallOptions(GetParam())));
  const Executable plain(graph, {.streams = 1});
  const Executable recomputing(graph, {.streams = 1, .recompute = true});
  EXPECT_LE(SavedBytes(recomputing.lowered(), kSteps, kBatch),
            SavedBytes(plain.lowered(), kSteps, kBatch));
}

INSTANTIATE_TEST_SUITE_P(Cells, RecomputedCells, ::testing::ValuesIn(CellNames()),
                         [](const auto& param) { return param.param; });

Graph Trained(const std::string& cell, int64_t layers) {
  RecurrentOptions options;
  options.cell = cell;
  options.size.input = 32;
  options.size.hidden = 32;
  options.layers = layers;
  Model model;
  const Value x = model.builder().Input("x", Domain::kStep, {options.size.input});
  model.graph().AddOutput("y", Recurrent(model, "rnn", x, options).output.id());
  return WithGradients(model.graph());
}

struct Footprint {
  int64_t saved;      // by the planner
  int64_t on_device;  // but parameters
  int64_t planned;    // on the CPU, all buffers and packed weights
};

Footprint FootprintOf(const Graph& graph, bool recompute, Precision precision) {
  Executable executable(
      graph, {.precision = precision, .streams = 2, .time_block = 4, .recompute = recompute});
  executable.SetShape(kSteps, kBatch);
  const LoweredGraph on_device =
      LowerForDevice(graph, precision, BoundaryType::kFloat32, recompute);
  MemoryPlan device_plan(on_device);
  device_plan.SetShape(kSteps, kBatch);
  // Devices keep no more than the CPU, beside 16-bit copies: the tanh of LSTM's c they compute
  // again.
  const int64_t saved = SavedBytes(on_device, kSteps, kBatch);
  const int64_t on_cpu = SavedBytes(executable.lowered(), kSteps, kBatch);
  if (precision == Precision::kFloat32) {
    EXPECT_LE(saved, on_cpu);
    EXPECT_GE(saved, on_cpu * 6 / 7);
  }
  return {saved, device_plan.shared_bytes(), executable.memory_bytes()};
}

// On a device: of LSTM h and c instead of four gates, h and c; of GRU h instead of three gates, the
// product that r multiplies, and h.
TEST(Recompute, KeepsStatesOnly) {
  constexpr int64_t kValue = kSteps * kBatch * 32 * 4;
  for (const int64_t layers : {1, 2, 4}) {
    const Graph lstm = Trained("lstm", layers);
    EXPECT_EQ(FootprintOf(lstm, false, Precision::kFloat32).saved, 6 * layers * kValue);
    EXPECT_EQ(FootprintOf(lstm, true, Precision::kFloat32).saved, 2 * layers * kValue);
    const Graph gru = Trained("gru", layers);
    EXPECT_EQ(FootprintOf(gru, false, Precision::kFloat32).saved, 5 * layers * kValue);
    EXPECT_EQ(FootprintOf(gru, true, Precision::kFloat32).saved, layers * kValue);
  }
}

TEST(Recompute, KeepsHalfAtMostInBf16) {
  for (const char* cell : {"lstm", "gru"}) {
    const Graph graph = Trained(cell, 2);
    EXPECT_LE(2 * FootprintOf(graph, true, Precision::kBFloat16).saved,
              FootprintOf(graph, false, Precision::kBFloat16).saved)
        << cell;
  }
}

TEST(Recompute, TakesClearlyLessMemoryWhereLayersAreStacked) {
  const Graph lstm = Trained("lstm", 4);
  const Footprint plain = FootprintOf(lstm, false, Precision::kFloat32);
  const Footprint recomputing = FootprintOf(lstm, true, Precision::kFloat32);
  EXPECT_LT(recomputing.on_device, plain.on_device * 6 / 10);
  EXPECT_LT(recomputing.planned, plain.planned * 6 / 10);
}

TEST(Recompute, TakesLessMemoryWhereBothDirectionsShareIt) {
  RecurrentOptions options = SmallOptions("lstm");
  options.layers = 2;
  options.bidirectional = true;
  const Graph graph = WithGradients(RecurrentGraph(options));
  const Footprint plain = FootprintOf(graph, false, Precision::kFloat32);
  const Footprint recomputing = FootprintOf(graph, true, Precision::kFloat32);
  EXPECT_LE(recomputing.saved * 2, plain.saved);
  EXPECT_LT(recomputing.on_device, plain.on_device * 7 / 10);
  EXPECT_LT(recomputing.planned, plain.planned * 7 / 10);
}

// What is kept for one block of steps after another lies in a few blocks.
TEST(Recompute, KeepsAFewBlocksOfGatesOnTheCpu) {
  Executable executable(Trained("lstm", 1), {.streams = 2, .time_block = 5, .recompute = true});
  executable.SetShape(kSteps, kBatch);
  const BufferPlaces& places = executable.plan().partition.places;
  int found = 0;
  int64_t bytes = 0;
  for (size_t i = 0; i < executable.lowered().buffers.size(); ++i) {
    const auto id = static_cast<int32_t>(i);
    const Buffer& buffer = executable.lowered().buffers[i];
    if (buffer.domain != Domain::kStep || buffer.width != 4 * 32) continue;
    ++found;
    EXPECT_TRUE(places.IsRing(id)) << buffer.name;
    bytes += executable.memory().BytesOf(id);
  }
  EXPECT_EQ(found, 2);  // of the forward pass and, in the same place, of the backward pass
  EXPECT_EQ(bytes, BufferPlaces::kBlocks * 5 * kBatch * 4 * 32 * 4);
}

// Nothing goes back over a loop: nothing to compute again.
TEST(Recompute, LeavesInferenceAlone) {
  const RecurrentOptions options = SmallOptions("lstm");
  const Graph graph = RecurrentGraph(options);
  const Bindings bindings = RandomBindings(graph, 4, kTraining);
  EXPECT_EQ(Execute(graph, bindings, Recomputing(kPlan)), Execute(graph, bindings, kPlan));
  const Executable executable(graph, {.streams = 1, .recompute = true});
  EXPECT_EQ(SavedBytes(executable.lowered(), kSteps, kBatch), 0);
}

// The gates are not rounded on their way to the backward pass.
TEST(Recompute, InBf16HasGradientsOfItsPrecision) {
  for (const char* cell : {"lstm", "gru"}) {
    const Graph graph = WithGradients(RecurrentGraph(SmallOptions(cell)));
    const Bindings bindings = RandomBindings(graph, 4, kTraining);
    ExecutableOptions options = Recomputing(kPlan);
    options.precision = Precision::kBFloat16;
    EXPECT_EQ(Differences(graph, bindings, Execute(graph, bindings, options), kBFloat16Tolerance),
              "");
  }
}

}  // namespace
}  // namespace turbolstm
