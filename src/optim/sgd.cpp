#include "optim/sgd.h"

#include <utility>

namespace turbolstm {

Sgd::Sgd(std::vector<OptimizedParameter> parameters, const OptimizerOptions& options)
    : Optimizer(std::move(parameters), options,
                options.momentum > 0 ? std::vector<std::string_view>{"momentum_buffer"}
                                     : std::vector<std::string_view>{}) {}

void Sgd::Update(const Chunk& chunk) const {
  const auto rate = static_cast<float>(options().learning_rate);
  const auto decay = static_cast<float>(options().weight_decay);
  const auto momentum = static_cast<float>(options().momentum);
  float* const weight = chunk.weight.data();
  const float* const gradient = chunk.gradient.data();
  const size_t n = chunk.weight.size();
  if (chunk.slots.empty()) {
    for (size_t i = 0; i < n; ++i) weight[i] -= rate * (gradient[i] + decay * weight[i]);
    return;
  }
  // The buffer starts as zeros, so the first step leaves it at d as the rule wants.
  float* const buffer = chunk.slots[0].data();
  const float from_gradient = options().nesterov ? 1.0f : 0.0f;
  const float from_buffer = options().nesterov ? momentum : 1.0f;
  for (size_t i = 0; i < n; ++i) {
    const float d = gradient[i] + decay * weight[i];
    buffer[i] = momentum * buffer[i] + d;
    weight[i] -= rate * (from_gradient * d + from_buffer * buffer[i]);
  }
}

}  // namespace turbolstm
