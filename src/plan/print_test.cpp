#include "plan/print.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error_test.h"
#include "plan/dependencies.h"
#include "plan/example_tasks.h"

namespace turbolstm {
namespace {

// A chain of a projection and two loop blocks, and a task that stands alone.
struct Example {
  Example() : tasks(4) {
    const char* names[] = {"project", "loop[0:4]", "loop[4:8]", "embed # \"x\""};
    for (int t = 0; t < 4; ++t) {
      tasks[t].name = names[t];
      tasks[t].cost = 2e-6;
      tasks[t].writes = {{t == 3 ? 1 : 0, 0, 1, 0, 8, 0, 4}};
    }
    dependencies = DeriveDependencies(tasks);
    schedule = ListSchedule(tasks, dependencies, 2, kNoHandover);
  }
  static constexpr MachineModel kNoHandover{.handover = 0};
  std::vector<Task> tasks;
  Dependencies dependencies;
  Schedule schedule;
};

TEST(PrintSchedule, ShowsStreamsTimesAndCriticalPath) {
  const Example e;
  EXPECT_EQ(PrintSchedule(e.tasks, e.dependencies, e.schedule),
            "# 4 tasks on 2 streams, estimated 6.000 us; critical path of 3 tasks, 6.000 us\n"
            "stream 0  # 3 tasks, busy 6.000 us, 100 %\n"
            "      0 project                                   # 0.000 .. 2.000 us, critical\n"
            "      1 loop[0:4]                                 # 2.000 .. 4.000 us, critical\n"
            "      2 loop[4:8]                                 # 4.000 .. 6.000 us, critical\n"
            "stream 1  # 1 tasks, busy 2.000 us, 33 %\n"
            "      3 embed _ _x_                               # 0.000 .. 2.000 us\n");
}

TEST(PrintSchedule, IsReadBackTheSame) {
  for (const int streams : {1, 2, 5}) {
    for (uint64_t seed = 0; seed < 50; ++seed) {
      const std::vector<Task> tasks = RandomTasks(seed).Make(static_cast<int64_t>(seed));
      const Dependencies dependencies = DeriveDependencies(tasks);
      const Schedule schedule = ListSchedule(tasks, dependencies, streams);
      const Schedule read =
          ParseSchedule(PrintSchedule(tasks, dependencies, schedule), tasks, dependencies);
      EXPECT_EQ(read.streams, schedule.streams);
      EXPECT_EQ(read.waits, schedule.waits);
    }
  }
}

TEST(ParseSchedule, TakesTasksMovedByHand) {
  const Example e;
  const auto parse = [&](std::string_view text) {
    return ParseSchedule(text, e.tasks, e.dependencies, Example::kNoHandover);
  };
  const Schedule moved = parse("stream 0\n 0\n 2 loop[4:8]\n\nstream 1 # by hand\n3\n 1\r\n");
  EXPECT_EQ(moved.streams, (std::vector<std::vector<int32_t>>{{0, 2}, {3, 1}}));
  EXPECT_EQ(moved.waits, (std::vector<std::vector<int32_t>>{{}, {0}, {1}, {}}));
  EXPECT_DOUBLE_EQ(moved.EstimatedSeconds(), 6e-6);
}

TEST(ParseSchedule, NamesTheDependencyThatAnEditViolates) {
  const Example e;
  EXPECT_EQ(ErrorOf([&] { ParseSchedule("stream 0\n0\n2\n1\n3\n", e.tasks, e.dependencies); }),
            "[schedule] the streams would wait for ever: task 2 'loop[4:8]' on stream 0 comes "
            "after task 1 'loop[0:4]', which stands behind task 2 'loop[4:8]' on stream 0");
}

TEST(ParseSchedule, NamesTheLineItCannotRead) {
  const Example e;
  const auto error = [&](std::string_view text) {
    return ErrorOf([&] { ParseSchedule(text, e.tasks, e.dependencies); });
  };
  EXPECT_EQ(error("0\n"), "[schedule] line 1 is '0', wants 'stream 0' first");
  EXPECT_EQ(error("stream 1\n"), "[schedule] line 1 is 'stream 1', wants 'stream 0'");
  EXPECT_EQ(error("stream 0\n 4\n"),
            "[schedule] line 2 is '4', wants a stream or a task, which are 0 .. 3");
  EXPECT_EQ(error("stream 0\n x\n"),
            "[schedule] line 2 is 'x', wants a stream or a task, which are 0 .. 3");
  EXPECT_EQ(error("stream 0\n 99999999999\n"),
            "[schedule] line 2 is '99999999999', wants a stream or a task, which are 0 .. 3");
  EXPECT_EQ(error("stream 0\n 1 project\n"),
            "[schedule] line 2 calls task 1 'project', this plan calls it 'loop[0:4]'");
  EXPECT_EQ(error("stream 0\n0\n1\n2\n"), "[schedule] task 3 'embed # \"x\"' stands in no stream");
  EXPECT_EQ(error("stream 0\n0\n0\n"),
            "[schedule] task 0 'project' stands in stream 0 and again in stream 0");
}

TEST(PrintTaskGraph, HasNodesAndEdges) {
  const Example e;
  const std::string text = PrintTaskGraph(e.tasks, e.dependencies, &e.schedule);
  EXPECT_NE(text.find("t0 [label=\"0 project\\n2.000 us\", fillcolor=lightblue];"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("t3 [label=\"3 embed # \\\"x\\\"\\n2.000 us\", fillcolor=palegreen];"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("t0 -> t1;"), std::string::npos);
  EXPECT_NE(text.find("t1 -> t2;"), std::string::npos);
  EXPECT_EQ(text.find("t0 -> t2;"), std::string::npos);
}

TEST(PrintTrace, IsJsonWithASliceATaskAndAnArrowAWait) {
  const Example e;
  const Schedule schedule =
      CompleteSchedule(e.tasks, e.dependencies, {{0, 2}, {3, 1}}, Example::kNoHandover);
  const auto trace = nlohmann::json::parse(PrintTrace(e.tasks, schedule, schedule.estimate));
  int names = 0, slices = 0, begins = 0, ends = 0;
  for (const auto& event : trace["traceEvents"]) {
    const std::string phase = event["ph"];
    names += phase == "M";
    begins += phase == "s";
    ends += phase == "f";
    if (phase != "X") continue;
    ++slices;
    if (event["name"] != "loop[4:8]") continue;
    EXPECT_EQ(event["tid"], 0);
    EXPECT_DOUBLE_EQ(event["ts"], 4);
    EXPECT_DOUBLE_EQ(event["dur"], 2);
  }
  EXPECT_EQ(names, 2);
  EXPECT_EQ(slices, 4);
  EXPECT_EQ(begins, 2);
  EXPECT_EQ(ends, 2);
  EXPECT_THROW(PrintTrace(e.tasks, schedule, {}), Error);
}

}  // namespace
}  // namespace turbolstm
