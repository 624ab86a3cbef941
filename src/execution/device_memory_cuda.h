#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/cuda/runtime_cuda.h"
#include "execution/memory_plan.h"
#include "plan/lowered.h"

namespace turbolstm::cuda {

// The buffers of a lowered graph on a device, as a MemoryPlan places them.
class DeviceMemory {
 public:
  explicit DeviceMemory(const LoweredGraph& graph);

  // Makes room for a shape; contents of all but parameters are undefined afterwards. Memory only
  // grows. True when buffers of shapes seen before have moved; then the stream, which works in
  // them, has been waited for. Error when the device has not enough; then no shape is set.
  bool Resize(int64_t steps, int64_t batch, const Stream& stream);
  // Likewise for a schedule (see MemoryPlan).
  bool Resize(int64_t steps, int64_t batch, const DeviceSchedule& schedule,
              std::span<const int64_t> state_bytes, const Stream& stream);

  std::byte* base(int32_t buffer) const { return bases_[static_cast<size_t>(buffer)]; }
  // Steps that a Step buffer holds.
  int64_t period(int32_t buffer) const;
  // Room for 16-bit copies of Static values (see MemoryPlan).
  const std::vector<View>& narrow_statics() const { return plan_.narrow_statics(); }
  std::byte* narrow_static(size_t i) const {
    return shared_.data() + plan_.narrow_static_offset(i);
  }
  std::byte* state(size_t group) const { return shared_.data() + plan_.state_offset(group); }
  int64_t bytes() const;

 private:
  bool Settle(int64_t steps, const Stream& stream);

  const LoweredGraph& graph_;
  MemoryPlan plan_;
  std::vector<std::byte*> bases_;
  DeviceBuffer parameters_;
  DeviceBuffer shared_;
  int64_t steps_ = 0;
};

}  // namespace turbolstm::cuda
