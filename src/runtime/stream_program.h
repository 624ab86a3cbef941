#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace turbolstm {

// Which stream runs which tasks in which order, laid out for running: made once, run often.
class StreamProgram {
 public:
  // Streams are in order, so "that task is done" is "that stream has done `count` tasks".
  struct Wait {
    int32_t stream;
    int32_t count;
  };
  struct Step {
    int32_t task;
    int32_t wait_begin, wait_end;  // into the waits
  };

  StreamProgram() = default;
  // streams[s]: the tasks of stream s in order; waits[t]: the tasks that t waits for. Tasks are
  // 0 .. waits.size() and each stands in exactly one stream, else Error. That the waits cannot
  // deadlock is the caller's to know (VerifySchedule proves it).
  StreamProgram(std::span<const std::vector<int32_t>> streams,
                std::span<const std::vector<int32_t>> waits);

  int streams() const { return static_cast<int>(stream_begin_.size()) - 1; }
  int tasks() const { return static_cast<int>(steps_.size()); }
  std::span<const Step> Steps(int stream) const {
    return std::span(steps_).subspan(stream_begin_[stream],
                                     stream_begin_[stream + 1] - stream_begin_[stream]);
  }
  std::span<const Wait> Waits(const Step& step) const {
    return std::span(waits_).subspan(step.wait_begin, step.wait_end - step.wait_begin);
  }

 private:
  std::vector<Step> steps_;  // stream after stream
  std::vector<Wait> waits_;
  std::vector<int32_t> stream_begin_{0};
};

}  // namespace turbolstm
