#include "execution/lent_buffers.h"

#include <algorithm>

#include "base/error.h"

namespace turbolstm {
namespace {

struct Writers {
  std::vector<bool> early, late;  // by buffer: written in this half

  explicit Writers(const LoweredGraph& graph)
      : early(graph.buffers.size(), false), late(graph.buffers.size(), false) {
    const size_t first_late = graph.first_late.value_or(graph.groups.size());
    for (size_t g = 0; g < graph.groups.size(); ++g) {
      for (const Stage& stage : graph.groups[g].stages) {
        for (const View& view : stage.outputs) {
          if (view.buffer < 0) continue;
          (g < first_late ? early : late)[static_cast<size_t>(view.buffer)] = true;
        }
      }
    }
  }
};

// By buffer: whether late groups read it.
std::vector<bool> LateReads(const LoweredGraph& graph) {
  std::vector<bool> reads(graph.buffers.size(), false);
  const auto read = [&](const View& view) {
    if (view.buffer >= 0) reads[static_cast<size_t>(view.buffer)] = true;
  };
  for (size_t g = graph.first_late.value_or(graph.groups.size()); g < graph.groups.size(); ++g) {
    for (const Stage& stage : graph.groups[g].stages) {
      for (const Operand& operand : stage.inputs) {
        read(operand.view);
        read(operand.init);
      }
      read(stage.bias);
      if (stage.weight >= 0) read(graph.weights[static_cast<size_t>(stage.weight)].matrix);
    }
  }
  return reads;
}

}  // namespace

LentBuffers FindLentBuffers(const LoweredGraph& graph) {
  const Writers writers(graph);
  const std::vector<bool> late_reads = LateReads(graph);
  LentBuffers found{std::vector<bool>(graph.buffers.size(), false), {}, {}};
  for (const NamedView& input : graph.inputs) {
    const auto i = static_cast<size_t>(input.view.buffer);
    TL_CHECK(!writers.early[i] && !writers.late[i],
             "[execution] '{}' is the caller's, and a group writes it", input.name);
    found.lent[i] = true;
  }
  for (const NamedView& output : graph.outputs) {
    const auto i = static_cast<size_t>(output.view.buffer);
    const Buffer& buffer = graph.buffers[i];
    const auto shares = [&](const NamedView& other) {
      return &other != &output && other.view.buffer == output.view.buffer;
    };
    const bool whole = output.view.column == 0 && output.view.width == buffer.width &&
                       !buffer.local && buffer.ring == 0 &&
                       buffer.source == BufferSource::kComputed &&
                       std::ranges::none_of(graph.outputs, shares);
    found.lent[i] = found.lent[i] || (whole && !(writers.early[i] && writers.late[i]));
    // Where both halves write the buffer, a gradient lies where something of the early half lay.
    const bool is_gradient = output.name.starts_with("d.");
    found.late_outputs.push_back(writers.late[i] && (!writers.early[i] || is_gradient));
    found.reread.push_back(found.lent[i] && !found.late_outputs.back() && late_reads[i]);
  }
  return found;
}

}  // namespace turbolstm
