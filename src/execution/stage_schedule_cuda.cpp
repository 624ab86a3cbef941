// Tasks of a schedule on streams: layers, directions and products beside each other.

#include <algorithm>

#include "execution/device_costs.h"
#include "execution/stage_enqueuer_cuda.h"

namespace turbolstm::cuda {
namespace {

// What a schedule must be expected to take of the time of groups one after the other, at most: what
// is expected is rough.
constexpr double kWorthIt = 0.83;

// Blocks of many warps that take several tiles were as much slower beside others than expected.
constexpr double kManyWarps = 1.3;

double CostBeside(const LoopStep& step, const LoopTile& tile) {
  const bool slower = tile.warps > kInnerWarps && tile.tiles > 1;
  return PersistentCost(step, tile) * (slower ? kManyWarps : 1);
}

}  // namespace

std::optional<DeviceSchedule> StageEnqueuer::Overlapping() const {
  // Pieces of what products multiply have one place for all.
  if (graph_.precision == Precision::kBf16x6) return {};
  if (in_turns_ || kind_ == ScheduleKind::kSequential || rows() == 0) return {};
  // Blocks of phased loops wait for each other too, and have no share.
  if (std::any_of(phased_matches_.begin(), phased_matches_.end(),
                  [](const auto& match) { return match.has_value(); })) {
    return {};
  }
  std::vector<DeviceLoop> loops(graph_.groups.size());
  std::vector<int64_t> chains(graph_.groups.size());
  bool any = false;
  for (size_t g = 0; g < loops.size(); ++g) {
    if (TileInTurns(g).parts == 0) continue;
    any = true;
    loops[g] = {true, matches_[g]->product_is_read};
    chains[g] = ChainsOf(g);
  }
  if (!any) return {};
  const LoopShares shares = [&](size_t group, int64_t processors) {
    const LoopTile tile = TileBeside(group, processors, chains[group]);
    if (tile.parts == 0) return LoopShare{};
    return LoopShare{tile.parts * tile.groups, CostBeside(matches_[group]->step, tile),
                     StartCost(matches_[group]->step, tile)};
  };
  const DeviceModel model{.processors = LoopProcessors()};
  const DeviceShapeOfWork shape{shape_.steps, shape_.batch};
  DeviceSchedule schedule = ScheduleForDevice(graph_, loops, shape, model, shares,
                                              SearchOf(kind_, shape_.steps, time_blocks_));
  const double in_turns = SecondsInTurns(graph_, loops, shape, model, shares);
  if (kind_ == ScheduleKind::kAuto && schedule.seconds >= kWorthIt * in_turns) return {};
  return schedule;
}

void StageEnqueuer::MakeScheduledLoops() {
  for (size_t g = 0; g < loops_.size(); ++g) {
    if (TileInTurns(g).parts == 0) continue;
    const LoopTile tile = TileBeside(g, schedule_->share, ChainsOf(g));
    loops_[g].emplace(matches_[g]->step, tile);
    state_bytes_[g] = tile.exchange_bytes + tile.carry_bytes;
  }
  for (size_t i = lanes_.size(); i < schedule_->streams.streams.size(); ++i) {
    lanes_.push_back(std::make_unique<Lane>(i >= DeviceSchedule::kFirstLoopStream ? Urgency::kHigh
                                            : i == 0                              ? Urgency::kMedium
                                                                                  : Urgency::kLow));
  }
}

void StageEnqueuer::EnqueueTasks() {
  const Schedule& schedule = schedule_->streams;
  const size_t tasks = schedule_->work.tasks.size();
  std::vector<size_t> lane_of(tasks);
  for (size_t i = 0; i < schedule.streams.size(); ++i) {
    for (const int32_t task : schedule.streams[i]) lane_of[static_cast<size_t>(task)] = i;
  }
  std::vector<bool> awaited(tasks, false);
  for (const std::vector<int32_t>& waits : schedule.waits) {
    for (const int32_t task : waits) awaited[static_cast<size_t>(task)] = true;
  }
  while (task_ended_.size() < tasks) task_ended_.push_back(std::make_unique<Event>());
  const bool limited = schedule_->product_limit < LoopProcessors();
  product_processors_ = limited ? static_cast<int32_t>(schedule_->product_limit) : 0;
  const cudaStream_t stream = context_.stream;
  schedule_begins_.Record(stream);
  for (size_t i = 0; i < schedule.streams.size(); ++i) {
    schedule_begins_.HoldBack(lanes_[i]->stream.get());
  }
  for (const int32_t task : schedule_->sequence) {
    const auto j = static_cast<size_t>(task);
    context_.stream = lanes_[lane_of[j]]->stream.get();
    room_ = std::min(lane_of[j], kRooms - 1);
    for (const int32_t before : schedule.waits[j]) {
      task_ended_[static_cast<size_t>(before)]->HoldBack(context_.stream);
    }
    EnqueueTask(j);
    if (awaited[j]) task_ended_[j]->Record(context_.stream);
  }
  context_.stream = stream;
  for (size_t i = 0; i < schedule.streams.size(); ++i) {
    lanes_[i]->ended.Record(lanes_[i]->stream);
    lanes_[i]->ended.HoldBack(stream);
  }
}

void StageEnqueuer::EnqueueTask(size_t number) {
  const Task& task = schedule_->work.tasks[number];
  const auto group = static_cast<size_t>(task.group);
  const RowRange steps{task.time_begin, task.time_end - task.time_begin, shape_.ragged};
  switch (schedule_->work.parts[number]) {
    case DevicePart::kNarrow:
      NarrowStatic(schedule_->work.narrow_statics[group]);
      return;
    case DevicePart::kGroup:
      return EnqueueGroup(group, steps, schedule_->work.adds[number]);
    case DevicePart::kLoop: {
      std::byte* const state = memory_.state(group);
      return EnqueuePersistent(group, state, steps, state + loops_[group]->tile().exchange_bytes);
    }
    case DevicePart::kProduct:
      return EnqueueProduct(*matches_[group]->product, steps, false);
  }
}

}  // namespace turbolstm::cuda
