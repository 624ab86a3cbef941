#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/cuda/runtime_cuda.h"
#include "execution/memory_plan.h"
#include "plan/lowered.h"

namespace turbolstm::cuda {

// The buffers of a lowered graph on a device, as a MemoryPlan places them: in memory of its own, or
// in what the caller lends.
class DeviceMemory {
 public:
  using Region = MemoryPlan::Region;

  explicit DeviceMemory(const LoweredGraph& graph);
  // lent: by buffer, whether it is the caller's.
  DeviceMemory(const LoweredGraph& graph, std::vector<bool> lent);

  // Makes room for a shape; contents of all but parameters are undefined afterwards. Memory only
  // grows. True when buffers of shapes seen before have moved; then the stream, which works in
  // them, has been waited for. Error when the device has not enough; then no shape is set.
  bool Resize(int64_t steps, int64_t batch, cudaStream_t stream);
  // Likewise for a schedule (see MemoryPlan).
  bool Resize(int64_t steps, int64_t batch, const DeviceSchedule& schedule,
              std::span<const int64_t> state_bytes, cudaStream_t stream);

  // For memory that the caller lends: sets a shape, and then for each use where things lie.
  void Plan(int64_t steps, int64_t batch);
  void LendRegion(Region region, std::byte* memory);
  void LendBuffer(int32_t buffer, std::byte* memory) {
    bases_[static_cast<size_t>(buffer)] = memory;
  }

  std::byte* base(int32_t buffer) const { return bases_[static_cast<size_t>(buffer)]; }
  // Steps that a Step buffer holds.
  int64_t period(int32_t buffer) const;
  // Room for 16-bit copies of Static values (see MemoryPlan).
  const std::vector<View>& narrow_statics() const { return plan_.narrow_statics(); }
  bool IsNarrowAtOnce(size_t i) const { return plan_.IsNarrowAtOnce(i); }
  std::byte* narrow_static(size_t i) const {
    return regions_[static_cast<size_t>(plan_.narrow_static_region(i))] +
           plan_.narrow_static_offset(i);
  }
  std::byte* state(size_t group) const { return shared_.data() + plan_.state_offset(group); }
  int64_t bytes() const;

 private:
  bool Settle(int64_t steps, cudaStream_t stream);

  const LoweredGraph& graph_;
  MemoryPlan plan_;
  std::vector<std::byte*> bases_;
  DeviceBuffer parameters_;
  DeviceBuffer shared_;
  std::byte* regions_[3] = {nullptr, nullptr, nullptr};
  int64_t steps_ = 0;
};

}  // namespace turbolstm::cuda
