#pragma once

#include <cstdint>

#include "execution/device_tasks.h"
#include "plan/lowered.h"

namespace turbolstm {

// What the schedule assumes of a device with multiprocessors; seconds, roughly, from what shows on
// an H200.
struct DeviceModel {
  int64_t processors = 0;
  double launch = 2.5e-6;      // of a kernel behind others
  double handover = 1.5e-6;    // from stream to stream
  double half_flops = 4.5e12;  // a second, of products of 16 bits on one multiprocessor
  double wide_flops = 1.6e12;  // likewise, of fp32 and tf32
  double bytes = 2.8e10;       // a second, on one multiprocessor
};

// Work that spreads over multiprocessors: seconds of one, and how many can share it.
struct DeviceWork {
  double latency = 0;
  double seconds = 0;
  double width = 1;
};

// What a task does that is no persistent loop's kernel. adds: see DeviceTasks.
DeviceWork WorkOf(const LoweredGraph& graph, const Task& task, DevicePart part, bool adds,
                  const DeviceModel& model);

}  // namespace turbolstm
