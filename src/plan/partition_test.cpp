#include "plan/partition.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "graph/passes/passes.h"
#include "graph/text.h"
#include "plan/lowering.h"

namespace turbolstm {
namespace {

struct Cut {
  Cut(std::string_view text, int64_t steps, int64_t batch, const PartitionOptions& options) {
    Graph graph = ParseGraph(text);
    RunPasses(&graph, StandardPasses());
    lowered = Lower(graph, Precision::kFloat32);
    layout = RowLayout(steps, batch);
    partition = PartitionWork(lowered, layout, options);
  }

  // "name 0:2" in order: the steps of each task, "rows 0:1" where it has not all; of a packing its
  // part, "pack w 1/2".
  std::vector<std::string> Tasks() const {
    std::vector<std::string> texts;
    for (size_t i = 0; i < partition.tasks.size(); ++i) {
      const Task& task = partition.tasks[i];
      if (const Work& work = partition.work[i]; work.weight >= 0) {
        texts.push_back(fmt::format("{} {}/{}", task.name, work.part.index + 1, work.part.count));
        continue;
      }
      std::string text = fmt::format("{} {}:{}", task.name, task.time_begin, task.time_end);
      if (task.row_begin > 0 || task.row_end < layout.batch()) {
        text += fmt::format(" rows {}:{}", task.row_begin, task.row_end);
      }
      if (!partition.work[i].first) text += " adds";
      texts.push_back(text);
    }
    return texts;
  }

  LoweredGraph lowered;
  RowLayout layout;
  Partition partition;
};

using Texts = std::vector<std::string>;

constexpr std::string_view kTwoLoops = R"(
input x: step[2]
%1: step[2] = add(x, h@1)
h: step[2] = tanh(%1)
%3: step[2] = add(h, g@1)
g: step[2] = tanh(%3)
output y = g
)";

// The second loop follows the first block by block, not behind all of it.
TEST(Partition, GroupsThatWalkOneWayTakeTurnsBlockByBlock) {
  const Cut cut(kTwoLoops, 5, 1, {.streams = 1, .time_block = 2});
  EXPECT_EQ(cut.Tasks(), (Texts{"loop h 0:2", "loop g 0:2", "loop h 2:4", "loop g 2:4",
                                "loop h 4:5", "loop g 4:5"}));
}

TEST(Partition, AGroupThatWalksTheOtherWayWaitsForAllBlocks) {
  const Cut cut(R"(
input x: step[2]
%1: step[2] = add(x, h@1)
h: step[2] = tanh(%1)
%3: step[2] = add(h, g@1) reverse
g: step[2] = tanh(%3) reverse
output y = g
)",
                4, 1, {.streams = 1, .time_block = 2});
  EXPECT_EQ(cut.Tasks(), (Texts{"loop h 0:2", "loop h 2:4", "loop g 2:4", "loop g 0:2"}));
}

TEST(Partition, LoopsAreCutByRowsForTheStreams) {
  const Cut cut(kTwoLoops, 2, 5, {.streams = 2, .time_block = 2});
  EXPECT_EQ(cut.Tasks(), (Texts{"loop h 0:2 rows 0:3", "loop h 0:2 rows 3:5", "loop g 0:2 rows 0:3",
                                "loop g 0:2 rows 3:5"}));
}

constexpr std::string_view kSums = R"(
input x: step[20]
parameter w: static[20, 20]
y: step[20] = matmul(w, x)
s: static[20] = sum_rows(y)
output s = s
)";

// Parts of a sum over rows are columns; blocks after the first add to what is there.
TEST(Partition, SumsOverRowsAreDoneInPartsOfColumnsAndBlocksOfSteps) {
  const Cut cut(kSums, 4, 32, {.streams = 2, .time_block = 2});
  EXPECT_EQ(cut.Tasks(),
            (Texts{"pack w 1/2", "pack w 2/2", "y 0:2", "s 0:2 rows 0:16", "s 0:2 rows 16:20",
                   "y 2:4", "s 2:4 rows 0:16 adds", "s 2:4 rows 16:20 adds"}));
}

TEST(Partition, AStepOfItsOwnIsCutByRows) {
  const Cut cut(kSums, 1, 32, {.streams = 2});
  EXPECT_EQ(cut.Tasks(), (Texts{"pack w 1/2", "pack w 2/2", "y 0:1 rows 0:16", "y 0:1 rows 16:32",
                                "s 0:1 rows 0:16", "s 0:1 rows 16:20"}));
}

TEST(Partition, EmptyShapesHaveTasksThatCoverNothing) {
  for (const auto& [steps, batch] : {std::pair{0, 2}, {3, 0}, {0, 0}}) {
    const Cut cut(kSums, steps, batch, {.streams = 2});
    for (const Task& task : cut.partition.tasks) EXPECT_GE(task.cost, 0);
    // The sum is written all the same: it is zero.
    EXPECT_EQ(cut.partition.tasks.back().name, "s");
  }
}

// The reader of the step before needs a block after its next writer has been there.
TEST(Partition, AGroupThatOverwritesWhatALaterBlockReadsWaits) {
  const Cut cut(R"(
input x: step[4]
parameter w: static[4, 4]
wide: step[4] = matmul(w, x)
late: step[4] = tanh(wide@1)
a: step[2] = slice(wide) size=2
b: step[2] = slice(wide) begin=2 size=2
c: step[2] = mul(a, b)
d: step[2] = sub(c, b)
both: step[4] = concat(c, d)
z: step[4] = matmul(w, both)
output late = late
output z = z
)",
                2, 1, {.streams = 1, .time_block = 1});
  EXPECT_EQ(cut.Tasks(), (Texts{"pack w 1/1", "wide 0:1", "late 0:1", "wide 1:2", "late 1:2",
                                "c,d 0:1", "z 0:1", "c,d 1:2", "z 1:2"}));
}

// The two passes of a training step: `w` is done with when its transpose is packed.
TEST(Partition, AWeightIsPackedWhereOneLayThatIsDoneWith) {
  constexpr std::string_view kBack = R"(
input x: step[4]
parameter w: static[4, 4]
%2: step[4] = matmul(w, h@1)
%3: step[4] = add(%2, x)
h: step[4] = tanh(%3)
%5: step[4] = matmul_transposed(w, g@1) reverse
%6: step[4] = add(%5, h) reverse
g: step[4] = tanh(%6) reverse
output g = g
)";
  const Cut cut(kBack, 4, 2, {.streams = 2, .time_block = 2});
  ASSERT_EQ(cut.lowered.weights.size(), 2u);
  const WeightSlots& slots = cut.partition.weights;
  EXPECT_EQ(slots.count(), 1);
  EXPECT_TRUE(slots.IsShared(0));
  EXPECT_TRUE(slots.IsShared(1));
  std::vector<int32_t> places;
  for (const Task& task : cut.partition.tasks) {
    if (task.name == "pack w") places.push_back(task.writes[0].buffer);
  }
  ASSERT_EQ(places.size(), 4u) << "two weights in two parts each";
  EXPECT_EQ(places[0], places[2]) << "nothing orders the second packing behind the products";
}

// Without blocks to take turns in, a layer's input weight is done with before its recurrent one is
// packed.
TEST(Partition, InOneBlockAWeightIsPackedWhereTheGroupBeforeHadIts) {
  constexpr std::string_view kLayer = R"(
input x: step[4]
parameter w: static[4, 4]
parameter u: static[4, 4]
p: step[4] = matmul(w, x)
%3: step[4] = matmul(u, h@1)
%4: step[4] = add(%3, p)
h: step[4] = tanh(%4)
%6: step[4] = matmul_transposed(u, g@1) reverse
%7: step[4] = add(%6, h) reverse
g: step[4] = tanh(%7) reverse
%9: step[4] = matmul_transposed(w, g)
output y = %9
)";
  const PartitionOptions options{.streams = 2, .time_block = 2};
  EXPECT_EQ(Cut(kLayer, 2, 3, options).partition.weights.count(), 1);
  EXPECT_EQ(Cut(kLayer, 4, 3, options).partition.weights.count(), 2);
}

// Streams share the work of packing, unless a loop without sequences would leave the parts of two
// weights in one place unordered.
TEST(Partition, AWeightIsPackedInAPartForEachStream) {
  const auto packings = [](int64_t batch) {
    const Cut cut(kSums, 4, batch, {.streams = 3});
    const auto& tasks = cut.partition.tasks;
    return std::count_if(tasks.begin(), tasks.end(),
                         [](const Task& task) { return task.name == "pack w"; });
  };
  EXPECT_EQ(packings(5), 3);
  EXPECT_EQ(packings(0), 1);
}

// Both products run block by block: neither is done with before the other begins.
TEST(Partition, WeightsThatAreInUseTogetherHavePlacesOfTheirOwn) {
  const Cut cut(R"(
input x: step[4]
parameter w: static[4, 4]
y: step[4] = matmul(w, x)
z: step[4] = matmul_transposed(w, y)
output z = z
)",
                4, 2, {.streams = 1, .time_block = 2});
  EXPECT_EQ(cut.partition.weights.count(), 2);
  EXPECT_FALSE(cut.partition.weights.IsShared(0));
}

// They are packed once for many runs.
TEST(Partition, WeightsOfAForwardPassKeepTheirPlaces) {
  const Cut cut(R"(
input x: step[4]
parameter w: static[4, 4]
parameter v: static[4, 4]
%3: step[4] = matmul(w, h@1)
%4: step[4] = add(%3, x)
h: step[4] = tanh(%4)
%6: step[4] = matmul(v, g@1) reverse
%7: step[4] = add(%6, h) reverse
g: step[4] = tanh(%7) reverse
output g = g
)",
                4, 2, {.streams = 2, .time_block = 2});
  EXPECT_EQ(cut.partition.weights.count(), 2);
  EXPECT_FALSE(cut.partition.weights.IsShared(1));
}

const Access* FindAccess(const std::vector<Access>& accesses, int32_t buffer) {
  for (const Access& access : accesses) {
    if (access.buffer == buffer) return &access;
  }
  return nullptr;
}

int32_t BufferNamed(const LoweredGraph& graph, std::string_view name) {
  for (size_t i = 0; i < graph.buffers.size(); ++i) {
    if (graph.buffers[i].name == name) return static_cast<int32_t>(i);
  }
  return -1;
}

TEST(Partition, AccessesReachAsFarAsDelays) {
  const Cut cut(R"(
input x: step[2]
y: step[2] = sub(x@2, x@1)
z: step[2] = sub(x@1, x@3) reverse
output y = y
output z = z
)",
                10, 3, {.streams = 1, .time_block = 4});
  const int32_t x = BufferNamed(cut.lowered, "x");
  for (const Task& task : cut.partition.tasks) {
    const bool back = task.name == "z";
    int64_t begin = 10;
    int64_t end = 0;
    for (const Access& read : task.reads) {
      if (read.buffer != x) continue;
      begin = std::min(begin, read.time_begin);
      end = std::max(end, read.time_end);
      EXPECT_EQ(read.row_end - read.row_begin, 3);
    }
    EXPECT_LE(begin, std::max<int64_t>(0, task.time_begin - (back ? 0 : 2)));
    EXPECT_GE(end, std::min<int64_t>(10, task.time_end + (back ? 3 : 0)));
    const Access* write = FindAccess(task.writes, BufferNamed(cut.lowered, task.name));
    ASSERT_NE(write, nullptr);
    EXPECT_EQ(write->time_begin, task.time_begin);
    EXPECT_EQ(write->time_end, task.time_end);
  }
}

// A ring is one place for all steps: whoever touches it comes one after the other.
TEST(Partition, ARingIsTouchedAsAWhole) {
  const Cut cut(R"(
input x: step[2]
%1: step[2] = add(x, c@1, h@1)
c: step[2] = tanh(%1)
h: step[2] = neg(c)
output y = h
)",
                6, 2, {.streams = 2, .time_block = 2, .row_tile = 1});
  const int32_t c = BufferNamed(cut.lowered, "c");
  ASSERT_GE(c, 0);
  EXPECT_EQ(cut.lowered.buffers[static_cast<size_t>(c)].ring, 2);
  ASSERT_EQ(cut.partition.tasks.size(), 6u);
  for (const Task& task : cut.partition.tasks) {
    const Access* write = FindAccess(task.writes, c);
    ASSERT_NE(write, nullptr);
    EXPECT_EQ(write->time_begin, 0);
    EXPECT_EQ(write->time_end, 1);
    EXPECT_EQ(write->row_end - write->row_begin, 1);
  }
}

}  // namespace
}  // namespace turbolstm
