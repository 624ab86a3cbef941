#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "plan/executable.h"

namespace turbolstm {

// The plan that was measured to be the fastest: of those that the cost model thinks best, of the
// known schedules, and of the winner scheduled anew by the times that its tasks took. Taken from
// the cache where that has it for this graph, shape, options, machine and version; else kept there.
Plan TunedPlan(const LoweredGraph& graph, const ExecutableOptions& options,
               const std::shared_ptr<StreamPool>& pool, int64_t steps, int64_t batch);

// The file that keeps it.
std::filesystem::path FileOfTunedPlan(const LoweredGraph& graph, const ExecutableOptions& options,
                                      int64_t steps, int64_t batch);

}  // namespace turbolstm
