#pragma once

#include <cstdint>
#include <vector>

#include "plan/lowered.h"
#include "plan/task.h"

namespace turbolstm {

// What of a group a device does at once.
enum class DevicePart : uint8_t {
  kNarrow,   // makes the 16-bit copy of a Static value
  kGroup,    // all that a group does, on a range of steps
  kLoop,     // the kernel of a persistent loop, on a range of steps
  kProduct,  // the product of a persistent loop that others read
};

// What a device can do with a group that is a loop over time.
struct DeviceLoop {
  bool persistent = false;       // it has a kernel that can stop and go on
  bool product_is_read = false;  // which leaves the product out, though others read it
};

// A graph as tasks for a device whose steps have `batch` rows each. Their order is one correct way
// to run them. Buffers of accesses are those of the graph, then the 16-bit copies of Static values
// (NarrowStaticsOf), then what each group hands over from one range of steps to the next.
struct DeviceTasks {
  std::vector<Task> tasks;        // group: of kNarrow the number of the value
  std::vector<DevicePart> parts;  // by task
  std::vector<bool> adds;         // by task: to what an earlier range of steps has summed up

  int32_t NarrowBuffer(const LoweredGraph& graph, size_t value) const {
    return static_cast<int32_t>(graph.buffers.size() + value);
  }
  int32_t StateBuffer(const LoweredGraph& graph, size_t group) const {
    return static_cast<int32_t>(graph.buffers.size() + narrow_statics.size() + group);
  }
  std::vector<View> narrow_statics;
};

// How to cut a graph.
struct DeviceCut {
  int64_t block = 0;  // steps of a task of persistent loops and what stands beside them; 0: all
  bool sums = false;  // sums of products over steps are done block by block too
};

// loops: by group. Cut are persistent loops, and what runs step by step or sums up products and
// touches what such a loop does.
DeviceTasks CutForDevice(const LoweredGraph& graph, const std::vector<DeviceLoop>& loops,
                         int64_t steps, int64_t batch, const DeviceCut& cut);

}  // namespace turbolstm
