#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/cuda/runtime_cuda.h"
#include "plan/lowered.h"

namespace turbolstm::cuda {

// The buffers of a lowered graph on a device. Groups run one after the other, so buffers that are
// never needed at once share memory. Parameters have places of their own, the same for every shape.
class DeviceMemory {
 public:
  explicit DeviceMemory(const LoweredGraph& graph);

  // Makes room for a shape; contents of all but parameters are undefined afterwards. Memory only
  // grows. True when buffers of shapes seen before have moved; then the stream, which works in
  // them, has been waited for. Error when the device has not enough; then no shape is set.
  bool Resize(int64_t steps, int64_t batch, const Stream& stream);

  std::byte* base(int32_t buffer) const { return bases_[static_cast<size_t>(buffer)]; }
  // Steps that a Step buffer holds.
  int64_t period(int32_t buffer) const;
  int64_t bytes() const;

 private:
  struct Lifetime {
    int64_t first = -1;  // groups
    int64_t last = -1;
  };

  bool IsParameter(size_t buffer) const;
  void FindLifetimes();
  void Touch(const View& view, int64_t group);
  int64_t BytesOf(size_t buffer, int64_t steps, int64_t batch) const;
  // For an error.
  std::string Describe(const std::vector<int64_t>& bytes, int64_t steps, int64_t batch) const;
  std::vector<int64_t> Offsets(const std::vector<int64_t>& bytes, int64_t* total) const;

  const LoweredGraph& graph_;
  std::vector<Lifetime> lifetimes_;
  std::vector<std::byte*> bases_;
  DeviceBuffer parameters_;
  DeviceBuffer arena_;
  int64_t steps_ = 0;
};

}  // namespace turbolstm::cuda
