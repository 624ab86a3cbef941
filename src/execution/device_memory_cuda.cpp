#include "execution/device_memory_cuda.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace turbolstm::cuda {
namespace {

constexpr int64_t kAlignment = 256;

int64_t Aligned(int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

DeviceMemory::DeviceMemory(const LoweredGraph& graph)
    : graph_(graph), lifetimes_(graph.buffers.size()), bases_(graph.buffers.size()) {
  FindLifetimes();
  int64_t total = 0;
  for (size_t i = 0; i < bases_.size(); ++i) {
    if (IsParameter(i)) total += Aligned(BytesOf(i, 0, 0));
  }
  parameters_ = DeviceBuffer(static_cast<size_t>(total), "the parameters");
  std::byte* next = parameters_.data();
  for (size_t i = 0; i < bases_.size(); ++i) {
    if (!IsParameter(i)) continue;
    bases_[i] = next;
    next += Aligned(BytesOf(i, 0, 0));
  }
}

bool DeviceMemory::IsParameter(size_t buffer) const {
  return graph_.buffers[buffer].source == BufferSource::kParameter;
}

void DeviceMemory::Touch(const View& view, int64_t group) {
  if (view.buffer < 0) return;
  Lifetime& lifetime = lifetimes_[static_cast<size_t>(view.buffer)];
  if (lifetime.first < 0) lifetime.first = group;
  lifetime.last = group;
}

void DeviceMemory::FindLifetimes() {
  const auto groups = static_cast<int64_t>(graph_.groups.size());
  for (int64_t g = 0; g < groups; ++g) {
    for (const Stage& stage : graph_.groups[static_cast<size_t>(g)].stages) {
      for (const Operand& operand : stage.inputs) {
        Touch(operand.view, g);
        Touch(operand.init, g);
      }
      for (const View& output : stage.outputs) Touch(output, g);
      Touch(stage.bias, g);
      if (stage.weight >= 0) Touch(graph_.weights[static_cast<size_t>(stage.weight)].matrix, g);
    }
  }
  // What the caller binds and reads is there from beginning to end.
  for (const auto* named : {&graph_.inputs, &graph_.outputs}) {
    for (const NamedView& value : *named) {
      lifetimes_[static_cast<size_t>(value.view.buffer)] = {0, groups};
    }
  }
}

int64_t DeviceMemory::period(int32_t buffer) const {
  const Buffer& what = graph_.buffers[static_cast<size_t>(buffer)];
  if (what.local) return 1;
  return what.ring > 0 ? what.ring : std::max<int64_t>(1, steps_);
}

int64_t DeviceMemory::BytesOf(size_t buffer, int64_t steps, int64_t batch) const {
  const Buffer& what = graph_.buffers[buffer];
  int64_t rows = 1;
  if (what.domain == Domain::kBatch) rows = batch;
  if (what.domain == Domain::kStep) {
    rows = batch * (what.local ? 1 : what.ring > 0 ? what.ring : steps);
  }
  return rows * what.width * static_cast<int64_t>(SizeOf(what.dtype));
}

// Largest first, each at the lowest place that is free for as long as it is needed.
std::vector<int64_t> DeviceMemory::Offsets(const std::vector<int64_t>& bytes,
                                           int64_t* total) const {
  std::vector<size_t> order;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (!IsParameter(i) && lifetimes_[i].first >= 0) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return bytes[a] > bytes[b]; });
  std::vector<int64_t> offsets(bytes.size(), 0);
  std::vector<size_t> placed;  // by offset
  *total = 0;
  for (const size_t i : order) {
    int64_t offset = 0;
    for (const size_t other : placed) {
      const bool together = lifetimes_[i].first <= lifetimes_[other].last &&
                            lifetimes_[other].first <= lifetimes_[i].last;
      if (!together) continue;
      if (offset + bytes[i] <= offsets[other]) break;
      offset = std::max(offset, offsets[other] + bytes[other]);
    }
    offsets[i] = offset;
    *total = std::max(*total, offset + bytes[i]);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), i,
                                   [&](size_t a, size_t b) { return offsets[a] < offsets[b]; }),
                  i);
  }
  return offsets;
}

std::string DeviceMemory::Describe(const std::vector<int64_t>& bytes, int64_t steps,
                                   int64_t batch) const {
  size_t largest = 0;
  for (size_t i = 1; i < bytes.size(); ++i) {
    if (!IsParameter(i) && bytes[i] > bytes[largest]) largest = i;
  }
  return fmt::format("a network's values of {} steps of {} sequences (the largest, '{}', has {})",
                     steps, batch, graph_.buffers[largest].name, bytes[largest]);
}

bool DeviceMemory::Resize(int64_t steps, int64_t batch, const Stream& stream) {
  std::vector<int64_t> bytes(graph_.buffers.size());
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = Aligned(BytesOf(i, steps, batch));
  int64_t total = 0;
  const std::vector<int64_t> offsets = Offsets(bytes, &total);
  const bool moved = static_cast<int64_t>(arena_.size()) < total &&
                     GrowBuffer(&arena_, total, Describe(bytes, steps, batch), stream);
  steps_ = steps;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (!IsParameter(i)) bases_[i] = arena_.data() + offsets[i];
  }
  return moved;
}

int64_t DeviceMemory::bytes() const {
  return static_cast<int64_t>(parameters_.size() + arena_.size());
}

}  // namespace turbolstm::cuda
