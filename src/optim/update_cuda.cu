// Updates of all parameters at once. The formulas are those of sgd.cpp, adam.cpp and
// gradient_clip.cpp.

#include "backend/cuda/check_cuda.h"
#include "optim/update_kernels_cuda.h"

namespace turbolstm::cuda {
namespace {

constexpr int kThreads = 256;
constexpr double kNormEpsilon = 1e-6;
constexpr float kLeastLossScale = 1;

// The sum over a block, the same on any run; in thread 0.
__device__ double SumOfBlock(double value) {
  __shared__ double lanes[kThreads];
  lanes[threadIdx.x] = value;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) lanes[threadIdx.x] += lanes[threadIdx.x + half];
  }
  return lanes[0];
}

__device__ const float* GradientOf(const UpdateChunk& chunk, const GradientList& gradients) {
  const float* const gradient = gradients.of[chunk.parameter];
  return gradient ? gradient + chunk.first : nullptr;
}

__global__ void SumOfSquares(const UpdateChunk* chunks,
                             const __grid_constant__ GradientList gradients, double* sums) {
  const UpdateChunk chunk = chunks[blockIdx.x];
  const float* const gradient = GradientOf(chunk, gradients);
  double sum = 0;
  for (int i = static_cast<int>(threadIdx.x); gradient && i < chunk.count; i += kThreads) {
    sum += static_cast<double>(gradient[i]) * gradient[i];
  }
  sum = SumOfBlock(sum);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

// Takes the step that was decided into the numbers that its blocks read.
__device__ void SetFactors(const UpdateRule& rule, UpdateState* state) {
  const double rate = state->learning_rate;
  const auto t = static_cast<double>(state->steps);
  state->rate = static_cast<float>(rule.adaptive ? rate / (1 - pow(rule.beta1, t)) : rate);
  state->kept = static_cast<float>(rule.decoupled ? 1 - rate * rule.weight_decay : 1.0);
  state->root_bias_correction = static_cast<float>(sqrt(1 - pow(rule.beta2, t)));
}

__device__ void AdaptLossScale(bool overflow, float* loss_scale, UpdateState* state) {
  if (overflow) {
    *loss_scale = fmaxf(*loss_scale / 2, kLeastLossScale);
    state->good_steps = 0;
  } else if (++state->good_steps == kStepsUntilLossScaleGrows) {
    *loss_scale = fminf(*loss_scale * 2, kLargestLossScale);
    state->good_steps = 0;
  }
}

__global__ void DecideUpdate(const UpdateRule rule, const double* sums, int count,
                             const float* loss, float* loss_scale, UpdateState* state,
                             UpdateReport* reports) {
  double sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads) sum += sums[i];
  sum = SumOfBlock(sum);
  if (threadIdx.x != 0) return;

  const float scale = loss_scale ? *loss_scale : 1.0f;
  const double norm = sqrt(sum) / scale;
  const bool finite = isfinite(norm);
  const bool overflow = loss_scale && !finite;
  if (!isfinite(*loss)) state->halted = 1;
  state->skip = state->halted || overflow;
  state->unscale = 1 / scale;
  const double factor = rule.clip_norm / (norm + kNormEpsilon);
  state->clip = rule.clip_norm > 0 && finite && factor < 1 ? static_cast<float>(factor) : 1.0f;
  if (loss_scale && !state->halted) AdaptLossScale(overflow, loss_scale, state);
  if (!state->skip) {
    ++state->steps;
    SetFactors(rule, state);
  }
  reports[state->asked++ % kUpdateReports] = {norm, *loss, scale, state->skip ? 0 : 1};
}

__device__ void UpdateSgd(const UpdateRule& rule, const UpdateState& state, float g, float* weight,
                          float* buffer) {
  const float d = g + static_cast<float>(rule.weight_decay) * *weight;
  if (!buffer) {
    *weight -= state.rate * d;
    return;
  }
  const auto momentum = static_cast<float>(rule.momentum);
  const float m = momentum * *buffer + d;
  *buffer = m;
  *weight -= state.rate * (rule.nesterov ? d + momentum * m : m);
}

__device__ void UpdateAdam(const UpdateRule& rule, const UpdateState& state, float g, float* weight,
                           float* mean, float* square) {
  const float w = *weight * state.kept;
  if (!rule.decoupled) g += static_cast<float>(rule.weight_decay) * w;
  const float m = *mean + static_cast<float>(1 - rule.beta1) * (g - *mean);
  const float v =
      static_cast<float>(rule.beta2) * *square + static_cast<float>(1 - rule.beta2) * g * g;
  *mean = m;
  *square = v;
  *weight = w - state.rate * m /
                    (sqrtf(v) / state.root_bias_correction + static_cast<float>(rule.epsilon));
}

__global__ void Update(const UpdateRule rule, const UpdateChunk* chunks,
                       const __grid_constant__ GradientList gradients, const UpdateState* decided) {
  const UpdateState state = *decided;
  if (state.skip) return;
  const UpdateChunk chunk = chunks[blockIdx.x];
  const float* const gradient = GradientOf(chunk, gradients);
  for (int i = static_cast<int>(threadIdx.x); i < chunk.count; i += kThreads) {
    const float g = gradient ? gradient[i] * state.unscale * state.clip : 0.0f;
    if (rule.adaptive) {
      UpdateAdam(rule, state, g, chunk.weight + i, chunk.slots[0] + i, chunk.slots[1] + i);
    } else {
      UpdateSgd(rule, state, g, chunk.weight + i, chunk.slots[0] ? chunk.slots[0] + i : nullptr);
    }
  }
}

}  // namespace

void LaunchSumOfSquares(const UpdateChunk* chunks, int count, const GradientList& gradients,
                        double* sums, cudaStream_t stream) {
  if (count == 0) return;
  SumOfSquares<<<static_cast<unsigned>(count), kThreads, 0, stream>>>(chunks, gradients, sums);
  TL_CUDA_CHECK(cudaGetLastError());
}

void LaunchDecideUpdate(const UpdateRule& rule, const double* sums, int count, const float* loss,
                        float* loss_scale, UpdateState* state, UpdateReport* reports,
                        cudaStream_t stream) {
  DecideUpdate<<<1, kThreads, 0, stream>>>(rule, sums, count, loss, loss_scale, state, reports);
  TL_CUDA_CHECK(cudaGetLastError());
}

void LaunchUpdate(const UpdateRule& rule, const UpdateChunk* chunks, int count,
                  const GradientList& gradients, const UpdateState* state, cudaStream_t stream) {
  if (count == 0) return;
  Update<<<static_cast<unsigned>(count), kThreads, 0, stream>>>(rule, chunks, gradients, state);
  TL_CUDA_CHECK(cudaGetLastError());
}

}  // namespace turbolstm::cuda
