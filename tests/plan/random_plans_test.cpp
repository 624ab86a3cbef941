// Whatever legal plan a graph runs under, it answers the same; whatever plan is not legal is
// refused.

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "graph/passes/lower_transforms.h"
#include "graph/text.h"
#include "plan/comparison.h"
#include "plan/dependencies.h"
#include "plan/known_schedules.h"
#include "plan/stream_clocks.h"
#include "plan/verify.h"
#include "testing/dice.h"
#include "testing/random_bindings.h"
#include "testing/random_graph.h"
#include "testing/sanitized.h"

namespace turbolstm {
namespace {

constexpr int kStreams = 3;

PartitionOptions RandomCuts(Dice* dice) {
  return {.streams = static_cast<int>(dice->Integer(1, kStreams)),
          .time_block = dice->Integer(1, 6),
          .row_tile = dice->Integer(1, 4),
          .sum_block = dice->Integer(0, 6),
          .step_parts = dice->Integer(1, 3),
          .one_by_one = dice->Chance(0.2)};
}

// Some order that honours every dependency, dealt out to streams at random.
std::vector<std::vector<int32_t>> RandomStreams(const Dependencies& dependencies, int count,
                                                Dice* dice) {
  std::vector<std::vector<int32_t>> streams(static_cast<size_t>(count));
  std::vector<size_t> missing;
  std::vector<std::vector<int32_t>> successors(dependencies.size());
  std::vector<int32_t> ready;
  for (size_t t = 0; t < dependencies.size(); ++t) {
    missing.push_back(dependencies[t].size());
    for (const int32_t before : dependencies[t]) {
      successors[static_cast<size_t>(before)].push_back(static_cast<int32_t>(t));
    }
    if (missing.back() == 0) ready.push_back(static_cast<int32_t>(t));
  }
  while (!ready.empty()) {
    const auto pick = dice->Integer(0, std::ssize(ready) - 1);
    const int32_t task = ready[static_cast<size_t>(pick)];
    ready.erase(ready.begin() + pick);
    streams[static_cast<size_t>(dice->Integer(0, count - 1))].push_back(task);
    for (const int32_t next : successors[static_cast<size_t>(task)]) {
      if (--missing[static_cast<size_t>(next)] == 0) ready.push_back(next);
    }
  }
  return streams;
}

// A plan that no scheduler would make, yet a legal one.
Plan RandomPlan(const Executable& executable, Dice* dice) {
  Plan plan = executable.PlanWith(RandomCuts(dice));
  const std::vector<Task>& tasks = plan.partition.tasks;
  const Dependencies dependencies = DeriveDependencies(tasks);
  plan.schedule = CompleteSchedule(
      tasks, dependencies, RandomStreams(dependencies, plan.partition.options.streams, dice));
  plan.program = StreamProgram(plan.schedule.streams, plan.schedule.waits);
  return plan;
}

Graph GraphFor(uint64_t seed, bool gradients) {
  RandomGraphOptions options;
  options.delay_any = seed % 3 == 0;
  Graph graph = RandomGraph(seed, options);
  LowerTransforms(&graph);
  return gradients ? WithGradients(graph) : graph;
}

Outputs RunAs(const Plan& plan, const Bindings& bindings, Executable* executable) {
  executable->Use(plan);
  executable->ParametersChanged();
  executable->Run({bindings.training, bindings.seed, bindings.training_step});
  Outputs outputs;
  for (const NamedView& output : executable->lowered().outputs) {
    const std::span<const float> values = executable->Output(output.name);
    outputs[output.name] = {values.begin(), values.end()};
  }
  return outputs;
}

// Sums over rows add up block by block, so their last bits depend on the plan.
bool SumsOverRows(const Graph& graph) {
  return std::ranges::any_of(graph.nodes(), [](const Node& node) {
    return node.op == Op::kOuter || node.op == Op::kSumRows;
  });
}

class RandomPlans : public ::testing::TestWithParam<int> {};

TEST_P(RandomPlans, AgreeWithTheInterpreterAndInTheForwardPassBitByBit) {
  const auto seed = static_cast<uint64_t>(GetParam());
  Dice dice(seed);
  const bool gradients = seed % 2 == 1;
  const Graph graph = GraphFor(seed, gradients);
  const Bindings bindings = RandomBindings(graph, seed, RandomBindingsOptionsFor(seed));
  Executable executable(graph, {.streams = kStreams, .verify = true});
  BoundBindings bound(bindings, &executable);
  const PartitionOptions sequential =
      CutsOf(ScheduleKind::kSequential, executable.layout(), {.streams = 1});
  const Outputs wanted = RunAs(executable.PlanWith(sequential), bindings, &executable);
  for (int i = 0; i < 3; ++i) {
    const Plan plan = RandomPlan(executable, &dice);
    const Outputs outputs = RunAs(plan, bindings, &executable);
    EXPECT_EQ(Differences(graph, bindings, outputs, kFloat32Tolerance), "")
        << "seed " << seed << "\n"
        << PrintPlan(plan);
    if (!SumsOverRows(graph)) {
      EXPECT_EQ(outputs, wanted) << "seed " << seed << "\n" << PrintPlan(plan);
    }
    EXPECT_EQ(PrintPlan(ParsePlan(PrintPlan(plan), executable.lowered())), PrintPlan(plan));
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomPlans, ::testing::Range(0, RandomCases(200)));

// --- Plans that somebody spoilt.

using Spoilt = std::optional<Plan>;

// Takes away one wait.
Spoilt WithoutAWait(Plan plan, Dice* dice) {
  std::vector<std::pair<size_t, size_t>> waits;
  for (size_t t = 0; t < plan.schedule.waits.size(); ++t) {
    for (size_t w = 0; w < plan.schedule.waits[t].size(); ++w) waits.emplace_back(t, w);
  }
  if (waits.empty()) return std::nullopt;
  const auto [task, wait] = dice->Pick(waits);
  std::vector<int32_t>& of_task = plan.schedule.waits[task];
  of_task.erase(of_task.begin() + static_cast<std::ptrdiff_t>(wait));
  return plan;
}

// Turns a dependency round: on one stream the two tasks change places, else the earlier one waits
// for the later one.
Spoilt WithADependencyReversed(Plan plan, Dice* dice) {
  const Dependencies dependencies = DeriveDependencies(plan.partition.tasks);
  std::vector<std::pair<int32_t, int32_t>> edges;
  for (size_t t = 0; t < dependencies.size(); ++t) {
    for (const int32_t before : dependencies[t]) {
      edges.emplace_back(before, static_cast<int32_t>(t));
    }
  }
  if (edges.empty()) return std::nullopt;
  const auto [before, after] = dice->Pick(edges);
  for (std::vector<int32_t>& stream : plan.schedule.streams) {
    const auto first = std::ranges::find(stream, before);
    const auto second = std::ranges::find(stream, after);
    if (first != stream.end() && second != stream.end()) {
      std::iter_swap(first, second);
      return plan;
    }
  }
  std::erase(plan.schedule.waits[static_cast<size_t>(after)], before);
  plan.schedule.waits[static_cast<size_t>(before)].push_back(after);
  return plan;
}

// Lets a task write where another one, that may run at the same time, writes.
Spoilt WithBuffersOverlapping(Plan plan, Dice* dice) {
  std::vector<Task>& tasks = plan.partition.tasks;
  const StreamClocks clocks(tasks, plan.schedule.streams, plan.schedule.waits);
  std::vector<std::pair<size_t, size_t>> pairs;
  const auto writes = [&](size_t task) {
    return std::ranges::any_of(tasks[task].writes, [](const Access& a) { return !a.Empty(); });
  };
  for (size_t b = 0; b < tasks.size(); ++b) {
    for (size_t a = 0; a < b; ++a) {
      const bool ordered = clocks.Ordered(static_cast<int32_t>(a), static_cast<int32_t>(b)) ||
                           clocks.Ordered(static_cast<int32_t>(b), static_cast<int32_t>(a));
      if (!ordered && writes(a) && writes(b)) pairs.emplace_back(a, b);
    }
  }
  if (pairs.empty()) return std::nullopt;
  const auto [a, b] = dice->Pick(pairs);
  const Access there =
      *std::ranges::find_if(tasks[a].writes, [](const Access& w) { return !w.Empty(); });
  tasks[b].writes.push_back(there);
  return plan;
}

// 1,000 of them, of all three kinds.
TEST(SpoiltPlans, AreRefusedEveryOne) {
  constexpr int kEach = 334;
  int refused[3] = {};
  for (uint64_t seed = 0; *std::ranges::min_element(refused) < RandomCases(kEach); ++seed) {
    ASSERT_LT(seed, 5000U) << "too few plans can be spoilt";
    Dice dice(seed);
    const Graph graph = GraphFor(seed, true);
    Executable executable(graph, {.streams = kStreams});
    executable.SetShape(dice.Integer(1, 7), dice.Integer(1, 5));
    const Plan plan = RandomPlan(executable, &dice);
    ASSERT_NO_THROW(VerifySchedule(plan.partition.tasks, plan.schedule)) << "seed " << seed;
    const Spoilt spoilt[3] = {WithoutAWait(plan, &dice), WithADependencyReversed(plan, &dice),
                              WithBuffersOverlapping(plan, &dice)};
    for (int kind = 0; kind < 3; ++kind) {
      if (!spoilt[kind]) continue;
      EXPECT_THROW(VerifySchedule(spoilt[kind]->partition.tasks, spoilt[kind]->schedule), Error)
          << "seed " << seed << ", kind " << kind;
      ++refused[kind];
    }
  }
  RecordProperty("refused", refused[0] + refused[1] + refused[2]);
}

}  // namespace
}  // namespace turbolstm
