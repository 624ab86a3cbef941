#include "plan/wave.h"

#include <algorithm>

#include "plan/work_kind.h"

namespace turbolstm {
namespace {

bool WritesAny(const Group& g, const std::set<int32_t>& buffers) {
  for (const Stage& stage : g.stages) {
    for (const View& view : stage.outputs) {
      if (buffers.contains(view.buffer)) return true;
    }
  }
  return false;
}

}  // namespace

// Calls visit(operand) for what the group reads by rows, and visit_whole(view) for the rest.
template <typename Visit, typename VisitWhole>
void Wave::ForEachRead(const Group& g, Visit visit, VisitWhole visit_whole) const {
  for (const Stage& stage : g.stages) {
    for (const Operand& operand : stage.inputs) {
      visit(operand);
      if (operand.init.buffer >= 0) visit_whole(operand.init);
    }
    if (stage.bias.buffer >= 0) visit_whole(stage.bias);
    if (stage.weight >= 0) visit_whole(graph_.weights[static_cast<size_t>(stage.weight)].matrix);
  }
}

bool Wave::ReadsFromWave(const Group& g) const {
  bool reads = false;
  ForEachRead(
      g, [&](const Operand& operand) { reads |= written_.contains(operand.view.buffer); },
      [&](const View& view) { reads |= written_.contains(view.buffer); });
  return reads;
}

bool Wave::ReadsResultOf(const Group& reader, const Group& g) const {
  bool reads = false;
  ForEachRead(
      reader,
      [&](const Operand& operand) {
        for (const Stage& stage : g.stages) {
          reads |= stage.outputs[0].buffer == operand.view.buffer;
        }
      },
      [](const View&) {});
  return reads;
}

bool Wave::ComesBefore(int32_t id) const {
  const Group& g = group(id);
  return WritesAny(g, written_) || WritesAny(g, read_) || ReadsFromWave(g);
}

bool Wave::WaitsForOtherWave(const Group& g, int32_t id) const {
  if (!save_memory_ || g.is_loop() || !direction_ || KindOfWork(g) != WorkKind::kSteps ||
      (!g.recomputed && ReadsFromWave(g))) {
    return false;
  }
  for (size_t next = static_cast<size_t>(id) + 1; next < graph_.groups.size(); ++next) {
    const Group& loop = graph_.groups[next];
    if (loop.is_loop() && (g.recomputed || ReadsResultOf(loop, g))) {
      return loop.direction != *direction_;
    }
  }
  return false;
}

bool Wave::CanTake(int32_t id) const {
  const Group& g = group(id);
  if (!IsBlockwise(g) || WaitsForOtherWave(g, id) || WritesAny(g, read_across_blocks_))
    return false;
  std::optional<Direction> direction = direction_;
  bool joins = true;
  const auto walk = [&](Direction wanted) {
    joins = joins && direction.value_or(wanted) == wanted;
    direction = wanted;
  };
  if (g.is_loop()) walk(g.direction);
  ForEachRead(
      g,
      [&](const Operand& operand) {
        if (!written_.contains(operand.view.buffer)) return;
        const Buffer& source = graph_.buffers[static_cast<size_t>(operand.view.buffer)];
        joins = joins && source.domain == Domain::kStep;
        if (operand.delay > 0) walk(operand.direction);
      },
      [&](const View& view) { joins = joins && !written_.contains(view.buffer); });
  return joins;
}

void Wave::Take(int32_t id) {
  const Group& g = group(id);
  groups_.push_back(id);
  if (g.is_loop()) direction_ = g.direction;
  ForEachRead(
      g,
      [&](const Operand& operand) {
        read_.insert(operand.view.buffer);
        if (operand.delay == 0) return;
        read_across_blocks_.insert(operand.view.buffer);
        if (written_.contains(operand.view.buffer)) direction_ = operand.direction;
      },
      [&](const View& view) {
        read_.insert(view.buffer);
        read_across_blocks_.insert(view.buffer);
      });
  for (const Stage& stage : g.stages) {
    for (const View& view : stage.outputs) written_.insert(view.buffer);
  }
}

bool Wave::IsOverwritten(int32_t id) const {
  std::set<int32_t> reads;
  ForEachRead(
      group(id), [&](const Operand& operand) { reads.insert(operand.view.buffer); },
      [&](const View& view) { reads.insert(view.buffer); });
  const auto behind = std::find(groups_.begin(), groups_.end(), id);
  return std::any_of(behind + 1, groups_.end(),
                     [&](int32_t other) { return WritesAny(group(other), reads); });
}

void Wave::Clear() {
  groups_.clear();
  written_.clear();
  read_.clear();
  read_across_blocks_.clear();
  direction_.reset();
}

}  // namespace turbolstm
