// Plans that were found by measuring, and what is kept of them; what plans are predicted to take.

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/peak_memory.h"
#include "base/read_file.h"
#include "plan/any_inputs.h"
#include "plan/comparison.h"
#include "plan/recurrent_graphs.h"
#include "plan/timeline.h"
#include "plan/tune.h"
#include "testing/random_bindings.h"
#include "testing/sanitized.h"

namespace turbolstm {
namespace {

namespace fs = std::filesystem;

Graph TwoLayers(int64_t hidden) {
  RecurrentOptions options;
  options.cell = "lstm";
  options.size.input = hidden;
  options.size.hidden = hidden;
  options.layers = 2;
  return WithGradients(RecurrentGraph(options));
}

class TunedPlans : public ::testing::Test {
 protected:
  TunedPlans()
      : folder_(fs::temp_directory_path() / ("tuned_plans_" + std::to_string(getpid()))),
        options_{.streams = 2, .tune = {.seconds = 0.01, .cache = folder_, .machine = ""}},
        pool_(std::make_shared<StreamPool>(2)),
        graph_(Executable(TwoLayers(8), options_).lowered()) {}
  ~TunedPlans() override { fs::remove_all(folder_); }

  std::string Tuned(int64_t steps) const {
    return PrintPlan(TunedPlan(graph_, options_, pool_, steps, 2));
  }
  fs::path File(int64_t steps) const { return FileOfTunedPlan(graph_, options_, steps, 2); }

  const fs::path folder_;
  ExecutableOptions options_;
  const std::shared_ptr<StreamPool> pool_;
  const LoweredGraph graph_;
};

TEST_F(TunedPlans, AreKeptByShape) {
  const std::string first = Tuned(12);
  EXPECT_TRUE(fs::exists(File(12)));
  EXPECT_FALSE(fs::exists(File(13)));
  EXPECT_NE(ReadFile(File(12)).find(first), std::string::npos);
  EXPECT_EQ(Tuned(12), first);
}

// What stands in the cache is what runs, if it is a plan of this graph and shape at all.
TEST_F(TunedPlans, AreTakenFromTheCacheUnlessDamaged) {
  Tuned(12);
  const std::string whole = ReadFile(File(12));
  for (const std::string& damaged : {whole.substr(0, whole.size() / 2), std::string(),
                                     std::string("nonsense"), ReadFile(File(12)) + "more"}) {
    std::ofstream(File(12)) << damaged;
    const std::string again = Tuned(12);
    EXPECT_NE(ReadFile(File(12)).find(again), std::string::npos) << "it is written anew";
  }
}

TEST_F(TunedPlans, NeedNoCache) {
  options_.tune.cache.clear();
  EXPECT_FALSE(Tuned(12).empty());
  std::ofstream(folder_.string()) << "no folder";
  options_.tune.cache = folder_;
  EXPECT_FALSE(Tuned(12).empty());
}

TEST_F(TunedPlans, AnswerAsOthersDo) {
  const Graph graph = TwoLayers(8);
  const Bindings bindings = RandomBindings(graph, 1, {.steps = 12, .batch = 2});
  options_.verify = true;
  EXPECT_EQ(Differences(graph, bindings, Execute(graph, bindings, options_), kFloat32Tolerance),
            "");
}

TEST(Timeline, AddsUpWhatStreamsDo) {
  Executable executable(TwoLayers(8), {.streams = 2});
  executable.SetShape(16, 4);
  const Plan& plan = executable.plan();
  const Timeline timeline = TimelineOf(executable.lowered(), plan, plan.schedule.estimate);
  double busy = 0, taken = 0;
  int tasks = 0;
  for (const double stream : timeline.busy) busy += stream;
  for (const TaskKind kind : kTaskKinds) {
    taken += timeline.of(kind).taken;
    tasks += timeline.of(kind).tasks;
    EXPECT_LE(timeline.of(kind).beside_loops, timeline.of(kind).taken * (1 + 1e-9)) << Name(kind);
  }
  EXPECT_NEAR(busy, taken, 1e-12);
  EXPECT_EQ(tasks, static_cast<int>(plan.partition.tasks.size()));
  EXPECT_NEAR(timeline.seconds, plan.schedule.EstimatedSeconds(), 1e-12);
  EXPECT_NEAR(2 * timeline.all_busy + (timeline.seconds - timeline.all_busy), busy,
              0.5 * timeline.seconds);
}

// Of every schedule, what a run takes in memory is foretold within a tenth.
TEST(PlannedMemory, IsWhatARunTakes) {
  if (TL_SANITIZED) GTEST_SKIP() << "sanitizers take memory of their own";
  const Graph graph = TwoLayers(128);
  const auto pool = std::make_shared<StreamPool>(2);
  for (int pass = 0; pass < 2; ++pass) {  // the first one brings code and threads
    for (const ScheduleKind kind : kScheduleKinds) {
      const PeakMemory memory;
      Executable executable(graph, {.streams = 2, .schedule = kind}, pool);
      executable.SetShape(60, 64);
      const AnyInputs inputs(&executable, 60, 64);
      executable.Run({.training = true});
      const double measured = memory.Mebibytes() - inputs.Mebibytes();
      if (measured + inputs.Mebibytes() == 0) GTEST_SKIP() << "the kernel does not tell";
      const double predicted =
          static_cast<double>(PlannedBytes(executable.lowered(), executable.layout(),
                                           executable.plan().partition, 2) +
                              BytesOf(executable.plan())) /
          (1 << 20);
      if (pass > 0) {
        EXPECT_NEAR(measured / predicted, 1, 0.1) << Name(kind);
      }
    }
  }
}

}  // namespace
}  // namespace turbolstm
