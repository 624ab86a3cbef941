#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/task.h"

namespace turbolstm {

// What is certainly done when a task begins, for tasks in streams that run in order and lists of
// tasks that come before: a vector clock a task.
class StreamClocks {
 public:
  // before[t]: tasks, on any stream, that t waits for. Errors: a task that does not stand in
  // exactly one stream, a task that waits for itself or for one that is not there, streams that
  // wait for each other for ever; they name the tasks.
  StreamClocks(std::span<const Task> tasks, std::span<const std::vector<int32_t>> streams,
               std::span<const std::vector<int32_t>> before);

  int32_t stream(int32_t task) const { return places_[task].stream; }
  int32_t position(int32_t task) const { return places_[task].position; }
  // How many tasks of that stream are done when this task begins, at least.
  int32_t DoneBefore(int32_t task, int32_t stream) const { return Clock(task)[stream]; }
  // Whether `first` is done when `second` begins.
  bool Ordered(int32_t first, int32_t second) const {
    return DoneBefore(second, stream(first)) > position(first);
  }
  // A sequence in which all tasks can run.
  std::span<const int32_t> sequence() const { return sequence_; }

 private:
  struct Place {
    int32_t stream = -1;
    int32_t position = 0;
  };
  using Lists = std::span<const std::vector<int32_t>>;

  void FindPlaces(std::span<const Task> tasks, Lists streams);
  void Advance(Lists streams, Lists before);
  bool CanRun(int32_t task, Lists before) const;
  void Begin(int32_t task, Lists streams, Lists before);
  [[noreturn]] void FailForDeadlock(std::span<const Task> tasks, Lists streams, Lists before) const;

  std::span<const int32_t> Clock(int32_t task) const {
    return std::span(clocks_).subspan(static_cast<size_t>(task) * done_.size(), done_.size());
  }

  std::vector<Place> places_;
  std::vector<int32_t> clocks_;  // [tasks, streams]
  std::vector<int32_t> done_;    // tasks of each stream that have run
  std::vector<int32_t> sequence_;
};

}  // namespace turbolstm
