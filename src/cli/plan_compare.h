#pragma once

#include <cstdint>
#include <string>

#include "cli/planned_network.h"
#include "plan/executable.h"

namespace turbolstm::cli {

struct CompareRequest {
  int64_t steps = 0;
  int64_t batch = 0;
  double seconds = 0;  // to measure in, the schedules in turn; 0: estimates only
};

// A table of all named schedules: what they are expected to take, in time and memory, and with
// seconds > 0 what they were measured to take.
std::string CompareSchedules(const PlannedNetwork& network, const ExecutableOptions& options,
                             const CompareRequest& request);

}  // namespace turbolstm::cli
