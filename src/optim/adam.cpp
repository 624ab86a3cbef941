#include "optim/adam.h"

#include <cmath>
#include <utility>

namespace turbolstm {

Adam::Adam(std::vector<OptimizedParameter> parameters, const OptimizerOptions& options,
           WeightDecay decay)
    : Optimizer(std::move(parameters), options, {"exp_avg", "exp_avg_sq"}), decay_(decay) {}

void Adam::Prepare() {
  const auto t = static_cast<double>(steps());
  step_size_ = static_cast<float>(options().learning_rate / (1 - std::pow(options().beta1, t)));
  root_bias_correction_ = static_cast<float>(std::sqrt(1 - std::pow(options().beta2, t)));
}

void Adam::Update(const Chunk& chunk) const {
  const double decay = options().weight_decay;
  const bool decoupled = decay_ == WeightDecay::kDecoupled;
  const auto kept = static_cast<float>(decoupled ? 1 - options().learning_rate * decay : 1.0);
  const auto in_gradient = static_cast<float>(decoupled ? 0.0 : decay);
  const auto beta2 = static_cast<float>(options().beta2);
  const auto rest1 = static_cast<float>(1 - options().beta1);
  const auto rest2 = static_cast<float>(1 - options().beta2);
  const auto epsilon = static_cast<float>(options().epsilon);
  const float step_size = step_size_;
  const float root_bias_correction = root_bias_correction_;

  // The four arrays do not overlap (see OptimizedParameter), which lets the loop run in vectors.
  float* __restrict const weight = chunk.weight.data();
  const float* __restrict const gradient = chunk.gradient.data();
  float* __restrict const mean = chunk.slots[0].data();
  float* __restrict const square = chunk.slots[1].data();
  const size_t n = chunk.weight.size();
  for (size_t i = 0; i < n; ++i) {
    const float w = weight[i] * kept;
    const float g = gradient[i] + in_gradient * w;
    mean[i] += rest1 * (g - mean[i]);
    square[i] = beta2 * square[i] + rest2 * g * g;
    weight[i] = w - step_size * mean[i] / (std::sqrt(square[i]) / root_bias_correction + epsilon);
  }
}

}  // namespace turbolstm
