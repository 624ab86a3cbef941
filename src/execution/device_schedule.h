#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "execution/device_costs.h"
#include "execution/device_tasks.h"
#include "plan/schedule.h"
#include "plan/schedule_kind.h"

namespace turbolstm {

// What a persistent loop takes when it has so many multiprocessors at most.
struct LoopShare {
  int64_t processors = 0;  // that it needs, all at once; 0: it does not fit
  double step = 0;         // seconds
  double start = 0;        // seconds of every launch, beside its steps
};
using LoopShares = std::function<LoopShare(size_t group, int64_t processors)>;

// Tasks of a device on streams. Stream 0 has what loops wait for, stream 1 what none waits for, the
// others have persistent loops. The loops of all streams fit on the device at once, whatever runs
// beside them: blocks of a loop wait for each other, so all of them have to be there.
struct DeviceSchedule {
  static constexpr size_t kFirstLoopStream = 2;

  DeviceTasks work;
  Dependencies dependencies;
  Schedule streams;
  std::vector<int32_t> sequence;  // of all tasks, in which they can run
  int64_t block = 0;              // steps of a task; 0: all
  int64_t share = 0;              // multiprocessors of a loop, at most
  int64_t product_limit = 0;      // likewise of a product
  double seconds = 0;             // predicted

  // As text: PrintSchedule's, below a line on the block and the share.
  std::string Text() const;
};

// Multiprocessors that the loops of a schedule need in the worst case: on each stream those of its
// largest loop.
int64_t MostResident(const DeviceSchedule& schedule, const LoopShares& shares);

struct DeviceShapeOfWork {
  int64_t steps = 0;
  int64_t batch = 0;
};

// Seconds of all groups one after the other, but for neighbouring loops that do not touch each
// other's results and are faster at once.
double SecondsInTurns(const LoweredGraph& graph, const std::vector<DeviceLoop>& loops,
                      const DeviceShapeOfWork& shape, const DeviceModel& model,
                      const LoopShares& shares);

// Among which schedules to choose.
struct DeviceSearch {
  int64_t blocks = 0;  // of steps, as near as alignment allows; 0: chosen
  bool whole = true;   // whether time may be left whole
  bool sums = true;    // whether sums over steps may be cut too
};
// What a named schedule leaves to be chosen. blocks: asked for; 0: none.
DeviceSearch SearchOf(ScheduleKind kind, int64_t steps, int64_t blocks);

// The schedule of which the least time is expected, among blocks of steps, shares of loops, and
// ways to cut sums over steps. Blocks are cut so that the rows of what products read and
// write begin at multiples of 256 bytes, which lets one algorithm serve a block and all steps.
// The same input gives the same schedule. Error: no loop is persistent, or none fits.
DeviceSchedule ScheduleForDevice(const LoweredGraph& graph, const std::vector<DeviceLoop>& loops,
                                 const DeviceShapeOfWork& shape, const DeviceModel& model,
                                 const LoopShares& shares, const DeviceSearch& search = {});

}  // namespace turbolstm
