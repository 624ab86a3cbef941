#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <optional>

#include "backend/cuda/check_cuda.h"
#include "backend/cuda/runtime_cuda.h"
#include "base/error.h"
#include "execution/device_lowering.h"
#include "execution/device_memory_cuda.h"
#include "execution/late_groups.h"
#include "execution/lent_buffers.h"
#include "execution/lent_execution.h"
#include "execution/stage_enqueuer_cuda.h"

namespace turbolstm {
namespace cuda {
namespace {

static_assert(sizeof(LentNumbers) == sizeof(RunNumbers));
using Region = DeviceMemory::Region;

DeviceShape ShapeOf(const LentShape& shape) {
  return {shape.steps, shape.batch, shape.ragged, shape.resets};
}

LoweredGraph LowerInHalves(Graph graph, const DeviceOptions& options,
                           std::span<const std::string> late_inputs) {
  LoweredGraph lowered =
      LowerForDevice(std::move(graph), options.precision, options.boundary, options.recompute);
  PutLateGroupsLast(&lowered, late_inputs);
  return lowered;
}

// While it lives, the calling thread is on a device, and may allocate though it records a stream.
class OnDevice {
 public:
  explicit OnDevice(int index) {
    const cudaError_t error = cudaGetDevice(&before_);
    if (error != cudaSuccess || before_ != index) UseDevice(index);
    TL_CUDA_CHECK(cudaThreadExchangeStreamCaptureMode(&mode_));
  }
  ~OnDevice() {
    cudaThreadExchangeStreamCaptureMode(&mode_);
    int now = before_;
    if (cudaGetDevice(&now) == cudaSuccess && now != before_) cudaSetDevice(before_);
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  int before_ = 0;
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

// What the passes on one stream, or of one recording, work in. Passes on a stream follow each
// other, so they can share it.
struct Lane {
  Lane(const LoweredGraph& graph, const std::vector<bool>& lent, const DeviceOptions& options)
      : memory(graph, lent), enqueuer(graph, memory, options) {}

  DeviceMemory memory;
  StageEnqueuer enqueuer;
  std::optional<DeviceShape> shape;
};

struct LaneKey {
  cudaStream_t stream = nullptr;
  unsigned long long recording = 0;  // 0: none
  LentShape shape{};                 // of a recording, whose memory must stay

  auto operator<=>(const LaneKey&) const = default;
};

class CudaLentExecution final : public LentExecution {
 public:
  CudaLentExecution(Graph graph, const DeviceOptions& options,
                    std::span<const std::string> late_inputs)
      : options_(options) {
    options_.in_turns = true;  // a schedule is for both halves together
    const OnDevice on(options.index);
    lowered_ = LowerInHalves(std::move(graph), options, late_inputs);
    buffers_ = FindLentBuffers(lowered_);
    layout_.emplace(lowered_, buffers_.lent);
    no_numbers_ = DeviceBuffer(sizeof(RunNumbers), "the numbers of a run");
    no_numbers_.Clear();
    fault_ = PinnedBuffer(sizeof(IndexFault), "what fails on the device");
    std::memset(fault_.data(), 0, sizeof(IndexFault));
  }

  ~CudaLentExecution() override {
    try {
      const OnDevice on(options_.index);
      cudaDeviceSynchronize();
      lanes_.clear();
    } catch (const Error&) {  // the driver is gone, and all memory with it
    }
  }
  CudaLentExecution(const CudaLentExecution&) = delete;
  CudaLentExecution& operator=(const CudaLentExecution&) = delete;

  const LoweredGraph& lowered() const override { return lowered_; }
  const std::vector<bool>& late_outputs() const override { return buffers_.late_outputs; }

  const std::vector<bool>& reread_outputs() const override { return buffers_.reread; }

  LentBytes Bytes(const LentShape& shape) override {
    layout_->SetShape(shape.steps, shape.batch);
    return {layout_->region_bytes(Region::kShared), layout_->region_bytes(Region::kEarly),
            layout_->region_bytes(Region::kLate)};
  }

  void Early(const LentPass& pass) override { Enqueue(pass, false); }
  void Late(const LentPass& pass) override { Enqueue(pass, true); }

 private:
  void Enqueue(const LentPass& pass, bool late) {
    const OnDevice on(options_.index);
    CheckFault();
    const auto stream = static_cast<cudaStream_t>(pass.stream);
    Lane& lane = LaneFor(stream, pass.shape);
    Place(pass, late, &lane.memory);
    const OperatorContext context = ContextOf(pass, stream);
    if (late) {
      lane.enqueuer.EnqueueLate(context, nullptr);
    } else {
      lane.enqueuer.EnqueueEarly(context, nullptr);
    }
    CopyOutputs(pass, late, lane.memory, stream);
  }

  // A persistent loop that waits in vain writes to memory of the host.
  void CheckFault() {
    auto* const fault = reinterpret_cast<volatile IndexFault*>(fault_.data());
    if (fault->found == 0) return;
    fault->found = 0;
    Fail("[execution] a block of a persistent kernel waited in vain for others in an earlier pass");
  }

  Lane& LaneFor(cudaStream_t stream, const LentShape& shape) {
    LaneKey key{stream, 0, {}};
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    TL_CUDA_CHECK(cudaStreamGetCaptureInfo(stream, &status, &key.recording));
    if (status == cudaStreamCaptureStatusNone) {
      key.recording = 0;
    } else {
      key.shape = shape;
    }
    auto found = lanes_.find(key);
    if (found == lanes_.end()) {
      auto lane = std::make_unique<Lane>(lowered_, buffers_.lent, options_);
      found = lanes_.emplace(key, std::move(lane)).first;
    }
    Lane& lane = *found->second;
    const DeviceShape wanted = ShapeOf(shape);
    if (lane.shape != wanted) {
      lane.shape.reset();  // an error leaves none
      lane.memory.Plan(shape.steps, shape.batch);
      lane.enqueuer.SetShape(wanted);
      lane.enqueuer.MakeRoom(stream);
      lane.shape = wanted;
    }
    return lane;
  }

  void Place(const LentPass& pass, bool late, DeviceMemory* memory) const {
    memory->LendRegion(Region::kShared, pass.shared);
    memory->LendRegion(late ? Region::kLate : Region::kEarly, pass.own);
    for (size_t i = 0; i < lowered_.inputs.size(); ++i) {
      memory->LendBuffer(lowered_.inputs[i].view.buffer, pass.inputs[i]);
    }
    for (size_t i = 0; i < lowered_.outputs.size(); ++i) {
      const int32_t buffer = lowered_.outputs[i].view.buffer;
      if (IsLentOutput(i)) memory->LendBuffer(buffer, pass.outputs[i]);
    }
  }

  bool IsLentOutput(size_t i) const {
    const auto buffer = static_cast<size_t>(lowered_.outputs[i].view.buffer);
    return buffers_.lent[buffer] && lowered_.buffers[buffer].source == BufferSource::kComputed;
  }

  OperatorContext ContextOf(const LentPass& pass, cudaStream_t stream) const {
    OperatorContext context;
    context.sequences.steps = pass.shape.steps;
    context.sequences.batch = pass.shape.batch;
    context.sequences.lengths = pass.shape.ragged ? pass.lengths : nullptr;
    context.sequences.resets = pass.shape.resets ? pass.resets : nullptr;
    context.run = pass.numbers ? static_cast<const RunNumbers*>(pass.numbers)
                               : reinterpret_cast<const RunNumbers*>(no_numbers_.data());
    context.fault = reinterpret_cast<IndexFault*>(fault_.data());
    context.stream = stream;
    return context;
  }

  // Those that are columns of something larger.
  void CopyOutputs(const LentPass& pass, bool late, const DeviceMemory& memory,
                   cudaStream_t stream) const {
    for (size_t i = 0; i < lowered_.outputs.size(); ++i) {
      const NamedView& output = lowered_.outputs[i];
      if (buffers_.late_outputs[i] != late || IsLentOutput(i) || !pass.outputs[i]) continue;
      const Buffer& buffer = lowered_.buffers[static_cast<size_t>(output.view.buffer)];
      const size_t element = SizeOf(buffer.dtype);
      const size_t width = static_cast<size_t>(output.view.width) * element;
      int64_t rows = 1;
      if (output.domain != Domain::kStatic) rows = pass.shape.batch;
      if (output.domain == Domain::kStep) rows *= pass.shape.steps;
      if (rows == 0 || width == 0) continue;
      TL_CUDA_CHECK(cudaMemcpy2DAsync(
          pass.outputs[i], width,
          memory.base(output.view.buffer) + static_cast<size_t>(output.view.column) * element,
          static_cast<size_t>(buffer.width) * element, width, static_cast<size_t>(rows),
          cudaMemcpyDeviceToDevice, stream));
    }
  }

  DeviceOptions options_;
  LoweredGraph lowered_;
  LentBuffers buffers_;
  std::optional<MemoryPlan> layout_;
  DeviceBuffer no_numbers_;
  PinnedBuffer fault_;
  std::map<LaneKey, std::unique_ptr<Lane>> lanes_;
};

}  // namespace
}  // namespace cuda

std::unique_ptr<LentExecution> MakeCudaLentExecution(Graph graph, const DeviceOptions& options,
                                                     std::span<const std::string> late_inputs) {
  return std::make_unique<cuda::CudaLentExecution>(std::move(graph), options, late_inputs);
}

}  // namespace turbolstm
