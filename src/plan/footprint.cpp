#include "plan/footprint.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace turbolstm {
namespace {

int64_t ElementBytes(const Buffer& buffer) {
  return static_cast<int64_t>(SizeOf(buffer.dtype));
}

bool GoesBack(const Group& group) {
  return group.is_loop() &&
         std::any_of(group.stages.begin(), group.stages.end(), [](const Stage& stage) {
           return std::any_of(stage.inputs.begin(), stage.inputs.end(),
                              [](const Operand& operand) { return operand.adjoint; });
         });
}

template <typename Visit>
void ForEachRead(const Stage& stage, Visit visit) {
  for (const Operand& operand : stage.inputs) {
    visit(operand.view);
    visit(operand.init);
  }
  visit(stage.bias);
  if (!stage.accumulate) return;
  for (const View& view : stage.outputs) visit(view);
}

// What holds numbers, and who asks for them next, column by column.
class Columns {
 public:
  explicit Columns(const LoweredGraph& graph) : graph_(graph) {
    for (const Buffer& buffer : graph.buffers) {
      marks_.emplace_back(static_cast<size_t>(buffer.width), Mark::kUntouched);
    }
  }

  // Bytes of columns that are written by groups before `boundary` and read by others.
  int64_t SavedBytesAt(size_t boundary, int64_t rows) {
    for (std::vector<Mark>& marks : marks_) std::fill(marks.begin(), marks.end(), Mark::kUntouched);
    for (size_t g = boundary; g < graph_.groups.size(); ++g) {
      for (const Stage& stage : graph_.groups[g].stages) {
        ForEachRead(stage, [&](const View& view) { Touch(view, Mark::kRead); });
        for (const View& view : stage.outputs) Touch(view, Mark::kWritten);
      }
    }
    for (const NamedView& output : graph_.outputs) Touch(output.view, Mark::kRead);
    int64_t bytes = 0;
    for (size_t g = 0; g < boundary; ++g) {
      for (const Stage& stage : graph_.groups[g].stages) {
        for (const View& view : stage.outputs) bytes += TakeRead(view) * rows;
      }
    }
    return bytes;
  }

 private:
  enum class Mark : uint8_t { kUntouched, kRead, kWritten, kCounted };

  std::pair<Mark*, Mark*> MarksOf(const View& view) {
    if (view.buffer < 0) return {nullptr, nullptr};
    Mark* const begin = marks_[static_cast<size_t>(view.buffer)].data() + view.column;
    return {begin, begin + view.width};
  }

  // The first touch counts.
  void Touch(const View& view, Mark mark) {
    const auto [begin, end] = MarksOf(view);
    std::replace(begin, end, Mark::kUntouched, mark);
  }

  int64_t TakeRead(const View& view) {
    const Buffer& buffer = graph_.buffers[static_cast<size_t>(view.buffer)];
    if (buffer.domain != Domain::kStep || buffer.local || buffer.ring > 0) return 0;
    const auto [begin, end] = MarksOf(view);
    const int64_t count = std::count(begin, end, Mark::kRead);
    std::replace(begin, end, Mark::kRead, Mark::kCounted);
    return count * ElementBytes(buffer);
  }

  const LoweredGraph& graph_;
  std::vector<std::vector<Mark>> marks_;  // by buffer
};

}  // namespace

int64_t SavedBytes(const LoweredGraph& graph, int64_t steps, int64_t batch) {
  const auto back = std::find_if(graph.groups.begin(), graph.groups.end(), GoesBack);
  if (back == graph.groups.end()) return 0;
  Columns columns(graph);
  int64_t least = -1;
  for (auto group = back;; --group) {
    const auto boundary = static_cast<size_t>(group - graph.groups.begin());
    const int64_t bytes = columns.SavedBytesAt(boundary, steps * batch);
    least = least < 0 ? bytes : std::min(least, bytes);
    if (group == graph.groups.begin() || std::prev(group)->is_loop()) return least;
  }
}

}  // namespace turbolstm
