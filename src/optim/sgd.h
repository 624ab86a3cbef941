#pragma once

#include <vector>

#include "optim/optimizer.h"

namespace turbolstm {

// Stochastic gradient descent, plain or with (Nesterov) momentum, as torch.optim.SGD:
//   d = g + decay w;  m = momentum m + d (m = d at first);  w -= rate (nesterov ? d + momentum m :
//   m)
class Sgd final : public Optimizer {
 public:
  Sgd(std::vector<OptimizedParameter> parameters, const OptimizerOptions& options);

 protected:
  void Update(const Chunk& chunk) const override;
};

}  // namespace turbolstm
