#pragma once

#include "plan/partition.h"
#include "plan/row_layout.h"
#include "plan/schedule_kind.h"

namespace turbolstm {

// How a schedule other than kAuto cuts the work. What `asked` gives (time_block, row_tile) stays.
PartitionOptions CutsOf(ScheduleKind kind, const RowLayout& layout, PartitionOptions asked);

}  // namespace turbolstm
