#include "plan/buffer_places.h"

#include <gtest/gtest.h>

namespace turbolstm {
namespace {

constexpr int64_t kSteps = 40;
constexpr int64_t kTimeBlock = 10;
constexpr int64_t kWidth = 4;

enum : int32_t { kInput, kOnce, kLong, kLater, kDelayed, kOutput, kBuffers };

Operand Reading(int32_t buffer, int32_t delay = 0) {
  Operand operand;
  operand.view = {buffer, 0, kWidth};
  operand.delay = delay;
  return operand;
}

Group Copying(const Operand& from, int32_t to) {
  Stage stage;
  stage.inputs = {from};
  stage.outputs = {{to, 0, kWidth}};
  Group group;
  group.stages = {stage};
  return group;
}

// input -> once -> long | long -> later | later -> delayed, delayed@1 -> output
LoweredGraph Chain() {
  LoweredGraph graph;
  graph.buffers.resize(kBuffers);
  for (Buffer& buffer : graph.buffers) buffer.width = kWidth;
  graph.buffers[kInput].source = BufferSource::kInput;
  graph.groups = {Copying(Reading(kInput), kOnce), Copying(Reading(kOnce), kLong),
                  Copying(Reading(kLong), kLater), Copying(Reading(kLater), kDelayed),
                  Copying(Reading(kDelayed, 1), kOutput)};
  graph.outputs = {{"y", {kOutput, 0, kWidth}, Domain::kStep, {kWidth}}};
  return graph;
}

const std::vector<GroupTurn> kTurns = {
    {0, 0, true}, {1, 0, true}, {2, 1, true}, {3, 2, true}, {4, 2, true}};

TEST(BufferPlaces, KeepBlocksOfWhatOneTurnUsesUp) {
  const LoweredGraph graph = Chain();
  const BufferPlaces places(graph, kTurns, kSteps, kTimeBlock);
  for (int32_t i = 0; i < kBuffers; ++i) EXPECT_EQ(places.IsRing(i), i == kOnce) << i;
}

TEST(BufferPlaces, KeepAllStepsWhereThereAreFew) {
  const LoweredGraph graph = Chain();
  const BufferPlaces places(graph, kTurns, BufferPlaces::kBlocks * kTimeBlock, kTimeBlock);
  EXPECT_FALSE(places.IsRing(kOnce));
}

// "delayed" begins behind the end of "long". "later" overlaps both, outputs stay.
TEST(BufferPlaces, AreSharedByLivesThatDoNotMeet) {
  const LoweredGraph graph = Chain();
  const BufferPlaces places(graph, kTurns, kSteps, kTimeBlock);
  for (int32_t i = 0; i < kBuffers; ++i) {
    EXPECT_EQ(places.place_of(i), i == kDelayed ? kLong : i) << i;
  }
}

TEST(BufferPlaces, AreSharedByOneTypeOnly) {
  LoweredGraph graph = Chain();
  graph.buffers[kLong].dtype = DType::kBFloat16;
  const BufferPlaces places(graph, kTurns, kSteps, kTimeBlock);
  EXPECT_EQ(places.place_of(kDelayed), kDelayed);
}

TEST(BufferPlaces, AreWhatTasksTouch) {
  const LoweredGraph graph = Chain();
  const BufferPlaces places(graph, kTurns, kSteps, kTimeBlock);
  Task task;
  task.reads = {{kOnce, 30, 40, 0, 2, 0, kWidth}};     // the fourth block, where the first lay
  task.writes = {{kDelayed, 30, 40, 0, 2, 0, kWidth},  //
                 {kBuffers, 0, 1, 0, 1, 0, 1}};        // a packed weight
  places.Apply({&task, 1});
  EXPECT_EQ(task.reads[0], (Access{kOnce, 0, 1, 0, 2, 0, kWidth}));
  EXPECT_EQ(task.writes[0], (Access{kLong, 30, 40, 0, 2, 0, kWidth}));
  EXPECT_EQ(task.writes[1], (Access{kBuffers, 0, 1, 0, 1, 0, 1}));
}

}  // namespace
}  // namespace turbolstm
