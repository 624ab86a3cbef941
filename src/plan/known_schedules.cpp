#include "plan/known_schedules.h"

#include <algorithm>

#include "base/error.h"

namespace turbolstm {
namespace {

// Of a wavefront over layers: few enough that a block is worth a task, many enough that the layers
// behind the first one need not wait long.
constexpr int64_t kWavefrontBlocks = 16;

int64_t BlockOf(const RowLayout& layout, int64_t blocks) {
  return std::max<int64_t>(1, (layout.steps() + blocks - 1) / blocks);
}

}  // namespace

PartitionOptions CutsOf(ScheduleKind kind, const RowLayout& layout, PartitionOptions asked) {
  PartitionOptions cuts = asked;
  const auto block_unless_given = [&](int64_t block) {
    if (asked.time_block == 0) cuts.time_block = block;
  };
  const auto all_sequences_unless_given = [&] {
    if (asked.row_tile == 0) cuts.row_tile = std::max<int64_t>(1, layout.batch());
  };
  switch (kind) {
    case ScheduleKind::kSequential:
      cuts.one_by_one = true;
      [[fallthrough]];
    case ScheduleKind::kWholeWindow:
      block_unless_given(std::max<int64_t>(1, layout.steps()));
      cuts.step_parts = asked.streams;
      return cuts;
    case ScheduleKind::kWavefront:
      block_unless_given(BlockOf(layout, kWavefrontBlocks));
      all_sequences_unless_given();
      return cuts;
    case ScheduleKind::kCellWavefront:
      block_unless_given(BlockOf(layout, kMostBlocks));
      all_sequences_unless_given();
      return cuts;
    case ScheduleKind::kTurboLstm:
      return cuts;
    case ScheduleKind::kAuto:
      break;
  }
  Fail("[plan] the schedule {} has no cuts of its own", Name(kind));
}

}  // namespace turbolstm
