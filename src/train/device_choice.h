#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "graph/graph.h"
#include "plan/execution.h"
#include "plan/lowered.h"
#include "runtime/stream_pool.h"
#include "turbolstm/device.h"

namespace turbolstm {

// Where a model runs.
struct DeviceChoice {
  DeviceKind kind = DeviceKind::kCpu;
  int index = 0;             // among the devices of its kind
  std::string text = "cpu";  // for people: which one, and why not a GPU
};

// wanted: "auto" (the first GPU that answers, else the CPU), "cpu", "cuda" or "cuda:1". Error for
// any other text, and for a GPU that does not answer, naming what was looked for.
DeviceChoice ChooseDevice(std::string_view wanted);

// Error unless the device trains in this precision. A CPU has fp32 and bf16.
void CheckPrecision(const DeviceChoice& device, Precision precision);
// What a model that was trained in `trained` answers in on this device: that, or fp32 where the
// device does not have it.
Precision AnswerPrecision(const DeviceChoice& device, Precision trained);

// pool: of the threads that a CPU uses.
std::unique_ptr<Execution> MakeExecution(Graph graph, const DeviceChoice& device,
                                         Precision precision,
                                         const std::shared_ptr<StreamPool>& pool);

}  // namespace turbolstm
