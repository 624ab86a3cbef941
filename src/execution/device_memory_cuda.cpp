#include "execution/device_memory_cuda.h"

#include <algorithm>

namespace turbolstm::cuda {

DeviceMemory::DeviceMemory(const LoweredGraph& graph)
    : graph_(graph),
      plan_(graph),
      bases_(graph.buffers.size()),
      parameters_(static_cast<size_t>(plan_.parameter_bytes()), "the parameters") {
  for (size_t i = 0; i < bases_.size(); ++i) {
    const auto buffer = static_cast<int32_t>(i);
    if (plan_.IsParameter(buffer)) bases_[i] = parameters_.data() + plan_.offset(buffer);
  }
}

DeviceMemory::DeviceMemory(const LoweredGraph& graph, std::vector<bool> lent)
    : graph_(graph), plan_(graph, std::move(lent)), bases_(graph.buffers.size()) {}

int64_t DeviceMemory::period(int32_t buffer) const {
  const Buffer& what = graph_.buffers[static_cast<size_t>(buffer)];
  if (what.local) return 1;
  return what.ring > 0 ? what.ring : std::max<int64_t>(1, steps_);
}

bool DeviceMemory::Resize(int64_t steps, int64_t batch, cudaStream_t stream) {
  plan_.SetShape(steps, batch);
  return Settle(steps, stream);
}

bool DeviceMemory::Resize(int64_t steps, int64_t batch, const DeviceSchedule& schedule,
                          std::span<const int64_t> state_bytes, cudaStream_t stream) {
  plan_.SetShape(steps, batch, schedule, state_bytes);
  return Settle(steps, stream);
}

bool DeviceMemory::Settle(int64_t steps, cudaStream_t stream) {
  const bool moved = static_cast<int64_t>(shared_.size()) < plan_.shared_bytes() &&
                     GrowBuffer(&shared_, plan_.shared_bytes(), plan_.Describe(), stream);
  steps_ = steps;
  LendRegion(Region::kShared, shared_.data());
  return moved;
}

void DeviceMemory::Plan(int64_t steps, int64_t batch) {
  plan_.SetShape(steps, batch);
  steps_ = steps;
}

void DeviceMemory::LendRegion(Region region, std::byte* memory) {
  regions_[static_cast<size_t>(region)] = memory;
  for (size_t i = 0; i < bases_.size(); ++i) {
    const auto buffer = static_cast<int32_t>(i);
    const bool elsewhere = plan_.IsParameter(buffer) || plan_.IsLent(buffer);
    if (!elsewhere && plan_.region(buffer) == region) bases_[i] = memory + plan_.offset(buffer);
  }
}

int64_t DeviceMemory::bytes() const {
  return static_cast<int64_t>(parameters_.size() + shared_.size());
}

}  // namespace turbolstm::cuda
