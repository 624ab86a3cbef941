#include "plan/schedule.h"

#include <gtest/gtest.h>

#include <bitset>
#include <set>

#include "base/error_test.h"
#include "plan/dependencies.h"
#include "plan/example_tasks.h"
#include "plan/verify.h"
#include "runtime/stream_pool.h"

namespace turbolstm {
namespace {

constexpr int kMostTasks = 64;
using TaskSet = std::bitset<kMostTasks>;
using Lists = std::vector<std::vector<int32_t>>;

// By comparing the elements themselves, one by one.
bool Conflict(const Task& a, const Task& b) {
  using Element = std::array<int64_t, 4>;
  const auto elements = [](const std::vector<Access>& boxes) {
    std::set<Element> set;
    for (const Access& box : boxes) {
      for (int64_t t = box.time_begin; t < box.time_end; ++t) {
        for (int64_t r = box.row_begin; r < box.row_end; ++r) {
          for (int64_t c = box.column_begin; c < box.column_end; ++c) {
            set.insert({box.buffer, t, r, c});
          }
        }
      }
    }
    return set;
  };
  const auto meet = [](const std::set<Element>& x, const std::set<Element>& y) {
    return std::any_of(x.begin(), x.end(), [&](const Element& e) { return y.count(e) > 0; });
  };
  const auto a_writes = elements(a.writes), b_writes = elements(b.writes);
  return meet(a_writes, b_writes) || meet(a_writes, elements(b.reads)) ||
         meet(elements(a.reads), b_writes);
}

// after[i]: what comes after i by the given steps, directly or not.
std::vector<TaskSet> Closure(std::vector<TaskSet> after) {
  for (size_t k = 0; k < after.size(); ++k) {
    for (auto& set : after) {
      if (set[k]) set |= after[k];
    }
  }
  return after;
}

std::vector<TaskSet> ClosureOf(const Schedule& schedule) {
  std::vector<TaskSet> after(schedule.waits.size());
  for (const auto& stream : schedule.streams) {
    for (size_t p = 1; p < stream.size(); ++p) after[stream[p - 1]].set(stream[p]);
  }
  for (size_t t = 0; t < schedule.waits.size(); ++t) {
    for (const int32_t before : schedule.waits[t]) after[before].set(t);
  }
  return Closure(after);
}

bool IsRight(const Lists& conflicts_before, const Schedule& schedule) {
  const std::vector<TaskSet> after = ClosureOf(schedule);
  for (size_t t = 0; t < after.size(); ++t) {
    if (after[t][t]) return false;  // waits for itself in the end
    for (const int32_t before : conflicts_before[t]) {
      if (!after[before][t]) return false;
    }
  }
  return true;
}

Lists AllConflicts(const std::vector<Task>& tasks) {
  Lists before(tasks.size());
  for (size_t j = 0; j < tasks.size(); ++j) {
    for (size_t i = 0; i < j; ++i) {
      if (Conflict(tasks[i], tasks[j])) before[j].push_back(static_cast<int32_t>(i));
    }
  }
  return before;
}

TEST(Dependencies, HaveThePathsOfAllConflictsAndNoOthers) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    RandomTasks make(seed);
    const std::vector<Task> tasks = make.Make(make.Below(kMostTasks));
    const auto closure = [&](const Lists& before) {
      std::vector<TaskSet> after(tasks.size());
      for (size_t t = 0; t < before.size(); ++t) {
        for (const int32_t b : before[t]) after[b].set(t);
      }
      return Closure(after);
    };
    EXPECT_EQ(closure(DeriveDependencies(tasks)), closure(AllConflicts(tasks))) << "seed " << seed;
  }
}

TEST(Dependencies, LeaveOutWhatFollowsFromOthers) {
  // Three tasks write the same box, a fourth reads it.
  const Access box{0, 0, 1, 0, 8, 0, 8};
  std::vector<Task> tasks(4);
  for (int t = 0; t < 3; ++t) tasks[t].writes = {box};
  tasks[3].reads = {box};
  EXPECT_EQ(DeriveDependencies(tasks), (Lists{{}, {0}, {1}, {2}}));
}

TEST(Dependencies, AreLegalForNoTasksAndEmptyBoxes) {
  EXPECT_TRUE(DeriveDependencies({}).empty());
  std::vector<Task> tasks(2);
  for (Task& task : tasks) task.writes = {{0, 0, 0, 0, 8, 0, 8}};
  EXPECT_EQ(DeriveDependencies(tasks), (Lists{{}, {}}));
  tasks[0].writes[0].buffer = -1;
  EXPECT_THROW(DeriveDependencies(tasks), Error);
}

TEST(Dependencies, OfFewAccessesFarApartAreQuick) {
  constexpr int64_t kFar = int64_t{1} << 50;
  std::vector<Task> tasks(3);
  tasks[0].writes = {{0, 0, 1, 0, 1, 0, 1}};
  tasks[1].writes = {{0, kFar, kFar + 1, 0, 1, 0, 1}};
  tasks[2].reads = {{0, 0, kFar + 1, 0, 1, 0, 1}};
  EXPECT_EQ(DeriveDependencies(tasks), (Lists{{}, {}, {0, 1}}));
}

TEST(Schedule, OfRandomTasksIsRight) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    RandomTasks make(seed);
    const std::vector<Task> tasks = make.Make(make.Below(kMostTasks));
    const int streams = 1 + static_cast<int>(make.Below(6));
    const Schedule schedule = ListSchedule(tasks, DeriveDependencies(tasks), streams);
    ASSERT_EQ(schedule.streams.size(), static_cast<size_t>(streams));
    EXPECT_TRUE(IsRight(AllConflicts(tasks), schedule)) << "seed " << seed;
    EXPECT_NO_THROW(VerifySchedule(tasks, schedule)) << "seed " << seed;
  }
}

TEST(Schedule, HasNoWaitTooMany) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    RandomTasks make(seed);
    const std::vector<Task> tasks = make.Make(40);
    const Lists conflicts = AllConflicts(tasks);
    Schedule schedule = ListSchedule(tasks, DeriveDependencies(tasks), 3);
    for (size_t t = 0; t < tasks.size(); ++t) {
      EXPECT_LE(schedule.waits[t].size(), 2u);
      for (size_t w = 0; w < schedule.waits[t].size(); ++w) {
        Schedule without = schedule;
        without.waits[t].erase(without.waits[t].begin() + static_cast<ptrdiff_t>(w));
        EXPECT_FALSE(IsRight(conflicts, without)) << "seed " << seed << ", task " << t;
      }
    }
  }
}

TEST(Schedule, IsTheSameEachTime) {
  const std::vector<Task> tasks = StackedLayers(2, 6, 3);
  const Dependencies dependencies = DeriveDependencies(tasks);
  const Schedule first = ListSchedule(tasks, dependencies, 3);
  const Schedule second = ListSchedule(tasks, dependencies, 3);
  EXPECT_EQ(first.streams, second.streams);
  EXPECT_EQ(first.waits, second.waits);
}

TEST(Schedule, UsesTheStreams) {
  const std::vector<Task> tasks = StackedLayers(1, 16, 4);
  const Dependencies dependencies = DeriveDependencies(tasks);
  double total = 0;
  for (const Task& task : tasks) total += task.cost;
  EXPECT_NEAR(ListSchedule(tasks, dependencies, 1).EstimatedSeconds(), total, 1e-9);
  EXPECT_LT(ListSchedule(tasks, dependencies, 2).EstimatedSeconds(), 0.55 * total);
  EXPECT_LT(ListSchedule(tasks, dependencies, 4).EstimatedSeconds(), 0.35 * total);
}

TEST(Schedule, TakesTheLongestRemainingPathFirst) {
  // A chain of three beside three short tasks: it begins at once though it is listed last.
  std::vector<Task> tasks(6);
  for (int t = 0; t < 6; ++t) {
    tasks[t].cost = 1;
    tasks[t].writes = {{std::min(t, 3), 0, 1, 0, 1, 0, 1}};
  }
  const Schedule schedule = ListSchedule(tasks, DeriveDependencies(tasks), 2, {.handover = 0});
  EXPECT_EQ(schedule.streams[0][0], 3);
  EXPECT_DOUBLE_EQ(schedule.EstimatedSeconds(), 3);
}

TEST(Schedule, KeepsARowTileOnItsStream) {
  // Two chains of equal tasks on disjoint rows: each stays where it began.
  std::vector<Task> tasks(20);
  for (int t = 0; t < 20; ++t) {
    const Access rows{0, 0, 1, t % 2 * 8, t % 2 * 8 + 8, 0, 4};
    tasks[t].cost = 1;
    tasks[t].reads = tasks[t].writes = {rows};
  }
  const Schedule schedule = ListSchedule(tasks, DeriveDependencies(tasks), 2, {.handover = 0});
  for (const auto& waits : schedule.waits) EXPECT_TRUE(waits.empty());
  EXPECT_DOUBLE_EQ(schedule.EstimatedSeconds(), 10);
}

TEST(Schedule, OfNoTasksIsLegal) {
  const Schedule schedule = ListSchedule({}, {}, 3);
  EXPECT_EQ(schedule.EstimatedSeconds(), 0);
  VerifySchedule({}, schedule);
  EXPECT_TRUE(CriticalPath({}, {}).empty());
}

TEST(Schedule, RefusesWhatItCannotSchedule) {
  std::vector<Task> tasks(1);
  EXPECT_THROW(ListSchedule(tasks, {{}}, 0), Error);
  EXPECT_THROW(ListSchedule(tasks, {{0}}, 1), Error);
  EXPECT_THROW(ListSchedule(tasks, {}, 1), Error);
  tasks[0].cost = std::nan("");
  EXPECT_THROW(ListSchedule(tasks, {{}}, 1), Error);
}

TEST(Schedule, CriticalPathIsAChainOfDependentTasks) {
  const std::vector<Task> tasks = StackedLayers(2, 5, 2);
  const Dependencies dependencies = DeriveDependencies(tasks);
  const std::vector<int32_t> path = CriticalPath(tasks, dependencies);
  double seconds = tasks[path[0]].cost;
  for (size_t p = 1; p < path.size(); ++p) {
    const auto& before = dependencies[path[p]];
    EXPECT_NE(std::find(before.begin(), before.end(), path[p - 1]), before.end());
    seconds += tasks[path[p]].cost;
  }
  EXPECT_NEAR(ListSchedule(tasks, dependencies, 64, {.handover = 0}).EstimatedSeconds(), seconds,
              1e-9);
}

// Swaps, moves and forgotten waits: the verifier refuses exactly what is wrong.
TEST(Verify, RefusesExactlyTheWrongMutations) {
  int refused = 0, accepted = 0;
  for (uint64_t seed = 0; seed < 600; ++seed) {
    RandomTasks make(seed);
    const std::vector<Task> tasks = make.Make(2 + make.Below(30));
    const Lists conflicts = AllConflicts(tasks);
    Schedule schedule = ListSchedule(tasks, DeriveDependencies(tasks), 3);
    auto& from = schedule.streams[static_cast<size_t>(make.Below(3))];
    if (from.size() < 2) continue;
    const auto place = static_cast<size_t>(make.Below(static_cast<int64_t>(from.size()) - 1));
    switch (make.Below(3)) {
      case 0:
        std::swap(from[place], from[place + 1]);
        break;
      case 1: {
        auto& to = schedule.streams[static_cast<size_t>(make.Below(3))];
        const int32_t task = from[place];
        from.erase(from.begin() + static_cast<ptrdiff_t>(place));
        to.insert(
            to.begin() + static_cast<ptrdiff_t>(make.Below(static_cast<int64_t>(to.size()) + 1)),
            task);
        break;
      }
      default:
        for (auto& waits : schedule.waits) {
          if (!waits.empty() && make.Below(4) == 0) waits.pop_back();
        }
    }
    const bool right = IsRight(conflicts, schedule);
    (right ? accepted : refused) += 1;
    EXPECT_EQ(ErrorOf([&] { VerifySchedule(tasks, schedule); }).empty(), right) << "seed " << seed;
  }
  EXPECT_GT(refused, 50);
  EXPECT_GT(accepted, 50);
}

std::vector<Task> ProducerAndConsumer() {
  std::vector<Task> tasks(2);
  tasks[0].name = "project";
  tasks[0].writes = {{1, 0, 4, 0, 16, 0, 128}};
  tasks[1].name = "loop";
  tasks[1].reads = {{1, 2, 6, 0, 8, 0, 128}};
  return tasks;
}

TEST(Verify, NamesTasksBufferAndBox) {
  const std::vector<Task> tasks = ProducerAndConsumer();
  Schedule schedule{{{0}, {1}}, {{}, {}}, {}};
  const std::vector<std::string> names{"x", "gates"};
  EXPECT_EQ(ErrorOf([&] { VerifySchedule(tasks, schedule, names); }),
            "[schedule] task 0 'project' (writes on stream 0) has to be done before task 1 'loop' "
            "(reads on stream 1) begins, but nothing makes it so: both touch 'gates', buffer 1, "
            "time 2:4, rows 0:8, columns 0:128");
  schedule.waits[1] = {0};
  EXPECT_NO_THROW(VerifySchedule(tasks, schedule, names));
  // Ordered, but the wrong way round.
  schedule = {{{1, 0}}, {{}, {}}, {}};
  EXPECT_NE(ErrorOf([&] { VerifySchedule(tasks, schedule); }), "");
}

TEST(Verify, NamesTheTasksOfADeadlock) {
  std::vector<Task> tasks(4);
  const Schedule schedule{{{0, 1}, {2, 3}}, {{3}, {}, {1}, {}}, {}};
  EXPECT_EQ(ErrorOf([&] { VerifySchedule(tasks, schedule); }),
            "[schedule] the streams would wait for ever: task 0 '' on stream 0 comes after task 3 "
            "'', which stands behind task 2 '' on stream 1; task 2 '' on stream 1 comes after task "
            "1 '', which stands behind task 0 '' on stream 0");
}

TEST(Verify, WantsEachTaskOnce) {
  std::vector<Task> tasks(2);
  EXPECT_THROW(VerifySchedule(tasks, {{{0}}, {{}, {}}, {}}), Error);
  EXPECT_THROW(VerifySchedule(tasks, {{{0, 1}, {1}}, {{}, {}}, {}}), Error);
  EXPECT_THROW(VerifySchedule(tasks, {{{0, 1, 2}}, {{}, {}}, {}}), Error);
  EXPECT_THROW(VerifySchedule(tasks, {{{0, 1}}, {{}}, {}}), Error);
  EXPECT_THROW(VerifySchedule(tasks, {{{0, 1}}, {{0}, {}}, {}}), Error);
  EXPECT_NO_THROW(VerifySchedule(tasks, {{{0, 1}}, {{}, {}}, {}}));
}

// What a task writes depends on all that it reads and on what it overwrites, so that any order that
// differs in effect differs in the result.
class Memory {
 public:
  void Run(const Task& task, uint64_t number) {
    uint64_t hash = number + 1;
    for (const Access& box : task.reads) {
      ForEach(box, [&](uint64_t& value) { hash = (hash ^ value) * 0x9E3779B97F4A7C15u; });
    }
    for (const Access& box : task.writes) {
      ForEach(box, [&](uint64_t& value) { value = (value ^ hash) * 0xBF58476D1CE4E5B9u + number; });
    }
  }
  bool operator==(const Memory&) const = default;

 private:
  using R = RandomTasks;
  template <typename Visit>
  void ForEach(const Access& box, Visit visit) {
    for (int64_t t = box.time_begin; t < box.time_end; ++t) {
      for (int64_t r = box.row_begin; r < box.row_end; ++r) {
        for (int64_t c = box.column_begin; c < box.column_end; ++c) {
          visit(values_[((box.buffer * R::kTime + t) * R::kRows + r) * R::kColumns + c]);
        }
      }
    }
  }
  std::vector<uint64_t> values_ =
      std::vector<uint64_t>(R::kBuffers * R::kTime * R::kRows * R::kColumns, 1);
};

TEST(Schedule, RunInThePoolGivesWhatTheListGives) {
  std::vector<std::unique_ptr<StreamPool>> pools;
  for (int streams = 1; streams <= 4; ++streams) {
    pools.push_back(std::make_unique<StreamPool>(streams));
  }
  for (uint64_t seed = 0; seed < 200; ++seed) {
    RandomTasks make(seed);
    const std::vector<Task> tasks = make.Make(make.Below(kMostTasks));
    Memory expected;
    for (size_t t = 0; t < tasks.size(); ++t) expected.Run(tasks[t], t);
    for (auto& pool : pools) {
      const Schedule schedule = ListSchedule(tasks, DeriveDependencies(tasks), pool->streams());
      const StreamProgram program(schedule.streams, schedule.waits);
      Memory memory;
      pool->Run(program, [&](int32_t t, int) { memory.Run(tasks[t], static_cast<uint64_t>(t)); });
      EXPECT_TRUE(memory == expected) << "seed " << seed << ", streams " << pool->streams();
    }
  }
}

}  // namespace
}  // namespace turbolstm
