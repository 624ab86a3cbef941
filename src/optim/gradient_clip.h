#pragma once

#include <span>

#include "optim/parallel.h"

namespace turbolstm {

// Euclidean norm of all arrays together, summed in double in an order that depends on the sizes
// alone. Not finite when an element is not.
double GlobalNorm(std::span<const std::span<float>> gradients,
                  const ParallelFor& parallel_for = SerialFor);

// Scales all arrays by max_norm / (norm + 1e-6) when that is below 1, as
// torch.nn.utils.clip_grad_norm_, and returns the norm before. A norm that is not finite leaves
// them as they are, so that the caller can say where it came from. max_norm > 0.
double ClipGlobalNorm(std::span<const std::span<float>> gradients, double max_norm,
                      const ParallelFor& parallel_for = SerialFor);

}  // namespace turbolstm
