#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cuda/runtime_cuda.h"
#include "optim/optimizer.h"

namespace turbolstm::cuda {

struct UpdateChunk;
struct UpdateState;

// A trained tensor in device memory, which must stay where it is.
struct DeviceParameter {
  std::string name;
  float* weight = nullptr;  // [size]
  int64_t size = 0;
};

// What one update did.
struct UpdateReport {
  double norm = 0;  // of all gradients together, unscaled and before clipping; 0 if not wanted
  float loss = 0;
  float loss_scale = 1;  // that its gradients had
  int32_t updated = 0;   // 0: skipped
};
inline constexpr int kUpdateReports = 4;

// Loss scaling as in torch.amp.GradScaler: gradients come times the scale. Where one of them is not
// finite, the update is skipped and the scale halved; it doubles after as many good steps.
inline constexpr float kFirstLossScale = 65536;
inline constexpr float kLargestLossScale = 1 << 24;
inline constexpr int kStepsUntilLossScaleGrows = 2000;

struct UpdateOptions {
  OptimizerOptions optimizer;
  double clip_norm = 0;         // of all gradients together, see ClipGlobalNorm; 0: no clipping
  float* loss_scale = nullptr;  // device memory [1]; null: gradients are not scaled
};

// The rules of MakeOptimizer on a device. What decides an update (its number, factors, whether it
// is skipped) stays on the device, so that updates can be recorded and replayed and nobody waits
// for them. Sums add up in an order that depends on the sizes alone.
class DeviceOptimizer {
 public:
  // rule: see MakeOptimizer.
  DeviceOptimizer(std::string_view rule, std::vector<DeviceParameter> parameters,
                  const UpdateOptions& options);

  // Enqueues one update. gradients: device memory of each parameter, [size] fp32, null for zeros;
  // loss: device memory [1]. A loss that is not finite halts the optimiser: it leaves all weights
  // as they are from then on.
  void Enqueue(std::span<const float* const> gradients, const float* loss, cudaStream_t stream);

  // For the updates from here on; ordered by the stream.
  void set_learning_rate(double learning_rate, const Stream& stream);

  // Of the update of this number, from 0; to be asked for when the device has done it, and before
  // it begins that of number + kUpdateReports.
  UpdateReport report(int64_t number) const;

  // On the device, beside weights and gradients.
  int64_t memory_bytes() const;

  // These wait for the stream.
  int64_t ReadSteps(const Stream& stream) const;  // updates made, not skipped
  struct SlotValues {
    std::string name;  // as in Optimizer::State
    std::vector<float> values;
  };
  std::vector<SlotValues> ReadSlots(const Stream& stream) const;

 private:
  struct Launch {
    size_t first_parameter;
    size_t parameters;
    int first_chunk;
    int chunks;
  };
  UpdateChunk* chunks() const { return reinterpret_cast<UpdateChunk*>(chunks_.data()); }
  UpdateState* state() const { return reinterpret_cast<UpdateState*>(state_.data()); }
  float* SlotOf(size_t slot, size_t parameter) const;
  void PlaceSlots();
  void MakeChunks();
  bool wants_norm() const { return options_.clip_norm > 0 || options_.loss_scale != nullptr; }

  std::string rule_;
  std::vector<DeviceParameter> parameters_;
  UpdateOptions options_;
  std::vector<std::string> slot_names_;
  std::vector<int64_t> offsets_;  // of each parameter's slots, elements
  int64_t elements_ = 0;          // of one slot of all parameters
  int chunk_count_ = 0;
  std::vector<Launch> launches_;
  DeviceBuffer slots_;
  DeviceBuffer chunks_;
  DeviceBuffer sums_;
  DeviceBuffer state_;
  PinnedBuffer reports_;
};

}  // namespace turbolstm::cuda
