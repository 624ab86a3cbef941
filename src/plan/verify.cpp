#include "plan/verify.h"

#include <algorithm>

#include "base/error.h"
#include "plan/stream_clocks.h"

namespace turbolstm {
namespace {

struct Touch {
  const Access* access;
  int32_t task;
};

struct Touches {
  std::vector<Touch> reads, writes;
};

std::vector<Touches> TouchesOfBuffers(std::span<const Task> tasks) {
  std::vector<Touches> buffers;
  const auto of = [&](const Access& access, int32_t task) -> Touches& {
    TL_CHECK(access.buffer >= 0, "[plan] task '{}' touches buffer {}, wants 0 or more",
             tasks[task].name, access.buffer);
    const auto buffer = static_cast<size_t>(access.buffer);
    if (buffer >= buffers.size()) buffers.resize(buffer + 1);
    return buffers[buffer];
  };
  for (int32_t task = 0; task < static_cast<int32_t>(tasks.size()); ++task) {
    for (const Access& read : tasks[task].reads) of(read, task).reads.push_back({&read, task});
    for (const Access& write : tasks[task].writes) of(write, task).writes.push_back({&write, task});
  }
  return buffers;
}

Access Overlap(const Access& a, const Access& b) {
  return {a.buffer,
          std::max(a.time_begin, b.time_begin),
          std::min(a.time_end, b.time_end),
          std::max(a.row_begin, b.row_begin),
          std::min(a.row_end, b.row_end),
          std::max(a.column_begin, b.column_begin),
          std::min(a.column_end, b.column_end)};
}

class Verifier {
 public:
  Verifier(std::span<const Task> tasks, const Schedule& schedule,
           std::span<const std::string> buffer_names)
      : tasks_(tasks),
        clocks_(tasks, schedule.streams, schedule.waits),
        buffer_names_(buffer_names) {}

  void Check() const {
    for (const Touches& touches : TouchesOfBuffers(tasks_)) {
      const std::vector<Touch>& writes = touches.writes;
      for (size_t w = 0; w < writes.size(); ++w) {
        for (const Touch& read : touches.reads) CheckPair(writes[w], "writes", read, "reads");
        for (size_t v = 0; v < w; ++v) CheckPair(writes[v], "writes", writes[w], "writes");
      }
    }
  }

 private:
  void CheckPair(const Touch& a, const char* a_does, const Touch& b, const char* b_does) const {
    if (a.task == b.task || !a.access->Overlaps(*b.access)) return;
    if (a.task > b.task) return CheckPair(b, b_does, a, a_does);
    if (clocks_.Ordered(a.task, b.task)) return;
    Fail(
        "[schedule] task {} '{}' ({} on stream {}) has to be done before task {} '{}' ({} on "
        "stream {}) begins, but nothing makes it so: both touch {}",
        a.task, tasks_[a.task].name, a_does, clocks_.stream(a.task), b.task, tasks_[b.task].name,
        b_does, clocks_.stream(b.task), DescribeOverlap(Overlap(*a.access, *b.access)));
  }

  std::string DescribeOverlap(const Access& overlap) const {
    const auto buffer = static_cast<size_t>(overlap.buffer);
    if (buffer >= buffer_names_.size()) return Describe(overlap);
    return fmt::format("'{}', {}", buffer_names_[buffer], Describe(overlap));
  }

  std::span<const Task> tasks_;
  StreamClocks clocks_;
  std::span<const std::string> buffer_names_;
};

}  // namespace

void VerifySchedule(std::span<const Task> tasks, const Schedule& schedule,
                    std::span<const std::string> buffer_names) {
  Verifier(tasks, schedule, buffer_names).Check();
}

}  // namespace turbolstm
