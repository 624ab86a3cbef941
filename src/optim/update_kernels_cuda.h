#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "optim/update_cuda.h"

// The kernels behind update_cuda.h. All pointers are to device memory unless said otherwise.
namespace turbolstm::cuda {

// What a launch takes by value: gradients move with the shape of a batch, the rest stays.
inline constexpr int kParametersOfALaunch = 256;
struct GradientList {
  const float* of[kParametersOfALaunch];  // null: zeros
};

// A part of a parameter that one block updates.
inline constexpr int kElementsOfAChunk = 4096;
struct UpdateChunk {
  float* weight = nullptr;  // those of the part
  float* slots[2] = {nullptr, nullptr};
  int64_t first = 0;  // within the parameter
  int32_t count = 0;
  int32_t parameter = 0;  // within its launch
};

// The rule's numbers that never change.
struct UpdateRule {
  bool adaptive = false;  // Adam and AdamW, else SGD
  bool decoupled = false;
  bool nesterov = false;
  double momentum = 0;
  double weight_decay = 0;
  double beta1 = 0;
  double beta2 = 0;
  double epsilon = 0;
  double clip_norm = 0;  // 0: no clipping
};

// What is carried from update to update, and what DecideUpdate tells the blocks of one.
struct UpdateState {
  double learning_rate = 0;
  int64_t steps = 0;       // updates made
  int64_t asked = 0;       // updates asked for
  int32_t good_steps = 0;  // since the loss scale changed
  int32_t halted = 0;      // a loss was not finite

  int32_t skip = 0;
  float unscale = 1;  // gradients are times this, then times `clip`
  float clip = 1;
  float rate = 0;  // SGD: the learning rate; Adam: that over 1 - beta1^t
  float kept = 1;  // of a weight, before the update
  float root_bias_correction = 1;
};

// sums[chunk] = the sum of squares of its gradients, in an order that depends on the sizes alone.
void LaunchSumOfSquares(const UpdateChunk* chunks, int count, const GradientList& gradients,
                        double* sums, cudaStream_t stream);
// One block: the norm from `count` sums (0: not wanted), whether to update and with which factors,
// and the loss scale of the next step (null: gradients are not scaled). reports: pinned memory of
// the host, [kUpdateReports].
void LaunchDecideUpdate(const UpdateRule& rule, const double* sums, int count, const float* loss,
                        float* loss_scale, UpdateState* state, UpdateReport* reports,
                        cudaStream_t stream);
void LaunchUpdate(const UpdateRule& rule, const UpdateChunk* chunks, int count,
                  const GradientList& gradients, const UpdateState* state, cudaStream_t stream);

}  // namespace turbolstm::cuda
