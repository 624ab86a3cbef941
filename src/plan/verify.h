#pragma once

#include <span>
#include <string>

#include "plan/schedule.h"
#include "plan/task.h"

namespace turbolstm {

// Proves that running the schedule looks like running the tasks one after another as listed: each
// task is scheduled once, no stream waits for ever, and of two tasks one of which writes what the
// other touches, the earlier is done before the later begins, by the order of the streams and the
// waits alone. Conflicts are found by comparing all accesses of each buffer, independently of
// DeriveDependencies. Error: names the tasks, the buffer (by `buffer_names` where given) and the
// overlapping box.
void VerifySchedule(std::span<const Task> tasks, const Schedule& schedule,
                    std::span<const std::string> buffer_names = {});

}  // namespace turbolstm
