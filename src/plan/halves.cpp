#include "plan/halves.h"

#include <algorithm>

#include "base/error.h"
#include "plan/dependencies.h"
#include "plan/schedule.h"
#include "plan/verify.h"

namespace turbolstm {
namespace {

std::vector<bool> BuffersOf(const LoweredGraph& graph, std::span<const std::string> inputs) {
  std::vector<bool> marked(graph.buffers.size(), false);
  for (const std::string& name : inputs) {
    const auto input = std::ranges::find(graph.inputs, name, &NamedView::name);
    TL_CHECK(input != graph.inputs.end(), "[plan] the graph has no input '{}' that could come late",
             name);
    marked[static_cast<size_t>(input->view.buffer)] = true;
  }
  return marked;
}

// That groups are to run one by one must not make a task late that needs nothing late.
std::vector<Task> WithoutBarriers(std::vector<Task> tasks, int32_t barrier) {
  const auto is_barrier = [&](const Access& access) { return access.buffer == barrier; };
  for (Task& task : tasks) {
    std::erase_if(task.reads, is_barrier);
    std::erase_if(task.writes, is_barrier);
  }
  return tasks;
}

// What touches these buffers, and what has to come after such a task.
std::vector<bool> LateTasks(std::span<const Task> tasks, const std::vector<bool>& late_buffers) {
  const auto touches = [&](const std::vector<Access>& accesses) {
    return std::ranges::any_of(accesses, [&](const Access& access) {
      const auto buffer = static_cast<size_t>(access.buffer);  // packed weights stand behind them
      return buffer < late_buffers.size() && late_buffers[buffer];
    });
  };
  const Dependencies dependencies = DeriveDependencies(tasks);
  std::vector<bool> late(tasks.size(), false);
  for (size_t i = 0; i < tasks.size(); ++i) {
    late[i] = touches(tasks[i].reads) || std::ranges::any_of(dependencies[i], [&](int32_t before) {
                return late[static_cast<size_t>(before)];
              });
  }
  return late;
}

PlanHalf MakeHalf(std::span<const Task> tasks, std::vector<int32_t> chosen, int streams,
                  bool verify) {
  std::vector<Task> own;
  own.reserve(chosen.size());
  for (const int32_t i : chosen) own.push_back(tasks[static_cast<size_t>(i)]);
  const Schedule schedule = ListSchedule(own, DeriveDependencies(own), streams);
  if (verify) VerifySchedule(own, schedule);
  return {std::move(chosen), StreamProgram(schedule.streams, schedule.waits)};
}

}  // namespace

PlanHalves SplitPlan(const LoweredGraph& graph, const Partition& partition,
                     std::span<const std::string> late_inputs, int streams, bool verify) {
  PlanHalves halves;
  halves.is_late = BuffersOf(graph, late_inputs);
  const std::vector<bool> late =
      LateTasks(WithoutBarriers(partition.tasks, BarrierBuffer(graph)), halves.is_late);
  std::vector<int32_t> chosen[2];
  for (size_t i = 0; i < late.size(); ++i) {
    chosen[late[i] ? 1 : 0].push_back(static_cast<int32_t>(i));
    if (!late[i]) continue;
    for (const Access& access : partition.tasks[i].writes) {
      const auto buffer = static_cast<size_t>(access.buffer);
      if (buffer < halves.is_late.size()) halves.is_late[buffer] = true;
    }
  }
  halves.early = MakeHalf(partition.tasks, std::move(chosen[0]), streams, verify);
  halves.late = MakeHalf(partition.tasks, std::move(chosen[1]), streams, verify);
  return halves;
}

}  // namespace turbolstm
