#include <algorithm>
#include <queue>
#include <utility>

#include "base/error.h"
#include "plan/schedule.h"

namespace turbolstm {
namespace {

void CheckInput(std::span<const Task> tasks, const Dependencies& dependencies, int streams) {
  TL_CHECK(streams >= 1, "[schedule] got {} streams, wants at least 1", streams);
  TL_CHECK(dependencies.size() == tasks.size(),
           "[schedule] got dependencies of {} tasks, the program has {}", dependencies.size(),
           tasks.size());
  for (size_t j = 0; j < tasks.size(); ++j) {
    TL_CHECK(tasks[j].cost >= 0, "[schedule] task {} '{}' costs {} seconds, wants 0 or more", j,
             tasks[j].name, tasks[j].cost);
    for (const int32_t i : dependencies[j]) {
      TL_CHECK(i >= 0 && i < static_cast<int32_t>(j),
               "[schedule] task {} '{}' depends on task {}, wants an earlier one", j, tasks[j].name,
               i);
    }
  }
}

// Seconds from the beginning of each task to the end of the last one that needs it, were there
// streams without end.
std::vector<double> RemainingPaths(std::span<const Task> tasks, const Dependencies& dependencies) {
  std::vector<double> remaining(tasks.size(), 0);
  for (size_t j = tasks.size(); j-- > 0;) {
    remaining[j] += tasks[j].cost;
    for (const int32_t i : dependencies[j]) remaining[i] = std::max(remaining[i], remaining[j]);
  }
  return remaining;
}

// The dependency that produced most of what the task reads, the one with the same rows among
// equals; -1 if none produced anything of it.
int32_t MainProducer(std::span<const Task> tasks, const std::vector<int32_t>& dependencies,
                     const Task& task) {
  std::pair<int64_t, bool> best{0, false};
  int32_t producer = -1;
  for (const int32_t i : dependencies) {
    int64_t shared = 0;
    for (const Access& write : tasks[i].writes) {
      for (const Access& read : task.reads) shared += write.SharedElements(read);
    }
    if (shared == 0) continue;
    const bool same_rows = tasks[i].row_begin == task.row_begin && tasks[i].row_end == task.row_end;
    if (const std::pair candidate{shared, same_rows}; candidate > best) {
      best = candidate;
      producer = i;
    }
  }
  return producer;
}

class ListScheduler {
 public:
  ListScheduler(std::span<const Task> tasks, const Dependencies& dependencies, int streams,
                const MachineModel& machine)
      : tasks_(tasks),
        dependencies_(dependencies),
        machine_(machine),
        remaining_(RemainingPaths(tasks, dependencies)),
        successors_(tasks.size()),
        missing_(tasks.size()),
        finish_(tasks.size(), 0),
        stream_of_(tasks.size(), -1),
        near_(tasks.size(), -1),
        free_at_(static_cast<size_t>(streams), 0),
        streams_(static_cast<size_t>(streams)) {
    for (size_t j = 0; j < tasks.size(); ++j) {
      missing_[j] = dependencies[j].size();
      for (const int32_t i : dependencies[j]) successors_[i].push_back(static_cast<int32_t>(j));
      if (missing_[j] == 0) pending_.emplace(0.0, static_cast<int32_t>(j));
    }
  }

  std::vector<std::vector<int32_t>> Run() {
    for (size_t placed = 0; placed < tasks_.size(); ++placed) {
      const int32_t task = NextTask();
      Place(task, ChooseStream(task));
    }
    return std::move(streams_);
  }

 private:
  // Of the tasks whose input is there when the next stream becomes free, the one with the longest
  // remaining path.
  int32_t NextTask() {
    double now = *std::min_element(free_at_.begin(), free_at_.end());
    if (available_.empty()) now = std::max(now, pending_.top().first);
    while (!pending_.empty() && pending_.top().first <= now) {
      const int32_t task = pending_.top().second;
      available_.emplace(remaining_[task], -task);
      pending_.pop();
    }
    return TakeAvailable(now);
  }

  // The first in line, or one of those close behind it if that one's input lies with a stream that
  // is free now: then fewer tasks change streams.
  int32_t TakeAvailable(double now) {
    constexpr size_t kLookedAt = 8;
    looked_at_.clear();
    const double longest = available_.top().first;
    size_t taken = 0;
    while (!available_.empty() && looked_at_.size() < kLookedAt) {
      const auto [path, negated] = available_.top();
      if (path < longest - machine_.overtaking * tasks_[-negated].cost) break;
      looked_at_.push_back(available_.top());
      available_.pop();
      const int32_t near = near_[-negated];
      if (near >= 0 && free_at_[near] <= now) {
        taken = looked_at_.size() - 1;
        break;
      }
    }
    for (size_t i = 0; i < looked_at_.size(); ++i) {
      if (i != taken) available_.push(looked_at_[i]);
    }
    return -looked_at_[taken].second;
  }

  double FinishOn(int32_t task, int32_t stream) const {
    double start = free_at_[stream];
    for (const int32_t i : dependencies_[task]) {
      const double handover = stream_of_[i] == stream ? 0 : machine_.handover;
      start = std::max(start, finish_[i] + handover);
    }
    return start + tasks_[task].cost;
  }

  int32_t ChooseStream(int32_t task) const {
    int32_t best = 0;
    double best_finish = FinishOn(task, 0);
    for (int32_t stream = 1; stream < static_cast<int32_t>(free_at_.size()); ++stream) {
      const double finish = FinishOn(task, stream);
      if (finish < best_finish) {
        best_finish = finish;
        best = stream;
      }
    }
    const int32_t near = near_[task];
    if (near < 0) return best;
    const double close = best_finish + machine_.affinity * tasks_[task].cost;
    return FinishOn(task, near) <= close ? near : best;
  }

  void Place(int32_t task, int32_t stream) {
    finish_[task] = FinishOn(task, stream);
    free_at_[stream] = finish_[task];
    stream_of_[task] = stream;
    streams_[stream].push_back(task);
    for (const int32_t successor : successors_[task]) {
      if (--missing_[successor] > 0) continue;
      double ready = 0;
      for (const int32_t i : dependencies_[successor]) ready = std::max(ready, finish_[i]);
      pending_.emplace(ready, successor);
      const int32_t producer = MainProducer(tasks_, dependencies_[successor], tasks_[successor]);
      if (producer >= 0) near_[successor] = stream_of_[producer];
    }
  }

  std::span<const Task> tasks_;
  const Dependencies& dependencies_;
  const MachineModel machine_;
  const std::vector<double> remaining_;
  std::vector<std::vector<int32_t>> successors_;
  std::vector<size_t> missing_;  // dependencies that have not been placed
  std::vector<double> finish_;
  std::vector<int32_t> stream_of_;
  std::vector<int32_t> near_;  // the stream that has a task's input in cache; -1: none
  std::vector<double> free_at_;
  std::vector<std::vector<int32_t>> streams_;

  // Pairs break ties by the task's number, so that the result does not depend on the heap.
  using Ready = std::pair<double, int32_t>;  // when, task
  std::priority_queue<Ready, std::vector<Ready>, std::greater<>> pending_;
  std::vector<Ready> looked_at_;
  std::priority_queue<Ready> available_;  // remaining path, -task: dependencies placed and done
};

}  // namespace

Schedule ListSchedule(std::span<const Task> tasks, const Dependencies& dependencies, int streams,
                      const MachineModel& machine) {
  CheckInput(tasks, dependencies, streams);
  if (streams == 1) {
    std::vector<int32_t> given(tasks.size());
    for (size_t j = 0; j < given.size(); ++j) given[j] = static_cast<int32_t>(j);
    return CompleteSchedule(tasks, dependencies, {std::move(given)}, machine);
  }
  ListScheduler scheduler(tasks, dependencies, streams, machine);
  return CompleteSchedule(tasks, dependencies, scheduler.Run(), machine);
}

std::vector<int32_t> CriticalPath(std::span<const Task> tasks, const Dependencies& dependencies) {
  if (tasks.empty()) return {};
  // Longest path that ends with each task, walked back from where it is longest.
  std::vector<double> path(tasks.size(), 0);
  std::vector<int32_t> previous(tasks.size(), -1);
  for (size_t j = 0; j < tasks.size(); ++j) {
    for (const int32_t i : dependencies[j]) {
      if (previous[j] >= 0 && path[i] <= path[j]) continue;
      path[j] = path[i];
      previous[j] = i;
    }
    path[j] += tasks[j].cost;
  }
  std::vector<int32_t> chain;
  for (auto task = static_cast<int32_t>(std::max_element(path.begin(), path.end()) - path.begin());
       task >= 0; task = previous[task]) {
    chain.push_back(task);
  }
  std::reverse(chain.begin(), chain.end());
  return chain;
}

}  // namespace turbolstm
