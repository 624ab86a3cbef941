#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cuda/runtime_cuda.h"
#include "execution/device_memory_cuda.h"
#include "execution/make_execution.h"
#include "execution/stage_enqueuer_cuda.h"
#include "graph/graph.h"
#include "plan/execution.h"
#include "plan/row_layout.h"

namespace turbolstm::cuda {

// Runs a graph on a GPU. What a run enqueues is recorded once for each shape and replayed; ragged
// batches whose longest sequences are about as long share a shape. Inputs are copied to the device
// when they were bound since the last run, parameters when they are said to have changed.
class CudaExecutable final : public Execution {
 public:
  CudaExecutable(Graph graph, const DeviceOptions& options);
  ~CudaExecutable() override;
  CudaExecutable(const CudaExecutable&) = delete;
  CudaExecutable& operator=(const CudaExecutable&) = delete;

  void SetShape(int64_t steps, int64_t batch, std::span<const int32_t> lengths = {},
                std::span<const uint8_t> resets = {}) override;
  void Bind(std::string_view name, std::span<const float> values) override;
  void BindHalf(std::string_view name, std::span<const uint16_t> bits) override;
  void BindIndices(std::string_view name, std::span<const int32_t> indices) override;
  void ParametersChanged() override;
  // Enqueues the run and returns; errors that the device finds are thrown by Output, Synchronize or
  // a later Run.
  void Run(const RunOptions& options = {}) override;
  std::span<const float> Output(std::string_view name) override;
  std::span<const uint16_t> HalfOutput(std::string_view name) override;

  const LoweredGraph& lowered() const override { return lowered_; }
  int64_t memory_bytes() const override;

  // Waits for the run. Error: an index was outside its table.
  void Synchronize();
  const Stream& stream() const { return stream_; }
  // Where a parameter, or an output that is no input, lies on the device: [elements] fp32 for
  // Static values. Outputs move when a larger shape is set. Error: it is kept in 16 bits.
  float* Parameter(std::string_view name);
  float* DeviceOutput(std::string_view name);
  // The numbers that a parameter has on the device now. values: all of its elements.
  void ReadParameter(std::string_view name, std::span<float> values);
  // Work that belongs to every run, behind the graph's own: recorded with it.
  void AppendToRun(std::function<void(cudaStream_t)> enqueue);
  // Of the last run's shape.
  size_t recorded_nodes() const;
  // What runs beside what for the shape that is set; null: groups one after the other.
  const DeviceSchedule* schedule() const { return enqueuer_.schedule(); }
  // Loops that ran as persistent kernels when a shape was last recorded.
  int64_t persistent_loops() const { return enqueuer_.persistent_loops(); }

 private:
  struct Bound {
    const std::byte* data = nullptr;
    int64_t elements = 0;
    DType dtype = DType::kFloat32;
    bool changed = true;
  };

  // What kernels read that changes from run to run; lies in device memory.
  struct RunState {
    RunNumbers numbers;
    float row_counts[2] = {0, 0};  // of Step and of Batch values
  };
  struct DeviceState {
    RunState run;
    IndexFault fault;
  };

  DeviceState* state() const { return reinterpret_cast<DeviceState*>(state_.data()); }
  int64_t DeviceBytes(const NamedView& value) const;
  void BindBytes(std::string_view name, const std::byte* data, int64_t elements, DType dtype);
  bool MakeRoom();
  const NamedView& InputOf(std::string_view name) const;
  void CheckBound() const;
  void UploadAll(const RunOptions& options);
  void UploadSequences();
  void UploadInput(const NamedView& input, const Bound& bound);
  // Room for `bytes` that a device may read until the next run; to be filled, then sent.
  std::byte* Staged(int64_t bytes);
  void Send(std::byte* to, const std::byte* staged, int64_t bytes);
  OperatorContext Context() const;
  void EnqueueRun();
  void RecordShape();
  [[noreturn]] void FailIndex(const IndexFault& fault) const;
  void Fetch(const NamedView& output, std::byte* to);
  std::byte* AddressOf(const NamedView& value) const;

  LoweredGraph lowered_;
  Stream stream_;
  DeviceMemory memory_;
  StageEnqueuer enqueuer_;
  RowLayout layout_;
  DeviceShape shape_;
  std::map<DeviceShape, RecordedGraph> recorded_;
  std::vector<std::function<void(cudaStream_t)>> appended_;
  std::map<std::string, Bound, std::less<>> bound_;
  std::map<std::string, std::vector<float>, std::less<>> outputs_;
  std::map<std::string, std::vector<uint16_t>, std::less<>> half_outputs_;
  DeviceBuffer sequences_;  // lengths [B], numbers [B], resets [T, B]
  DeviceBuffer state_;      // DeviceState
  PinnedBuffer staging_;
  int64_t staged_ = 0;
  Event uploaded_;
  bool sequences_changed_ = true;
  bool has_memory_ = false;
  bool has_results_ = false;
};

}  // namespace turbolstm::cuda
