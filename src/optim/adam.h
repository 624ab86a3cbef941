#pragma once

#include <vector>

#include "optim/optimizer.h"

namespace turbolstm {

// Where the weight decay acts: added to the gradient (Adam, Kingma & Ba, arXiv 1412.6980) or on the
// weight itself (AdamW, Loshchilov & Hutter, arXiv 1711.05101).
enum class WeightDecay { kInGradient, kDecoupled };

// As torch.optim.Adam and AdamW, at step t:
//   m += (1 - beta1) (g - m);  v = beta2 v + (1 - beta2) g g
//   w -= rate / (1 - beta1^t) m / (sqrt(v) / sqrt(1 - beta2^t) + epsilon)
class Adam final : public Optimizer {
 public:
  Adam(std::vector<OptimizedParameter> parameters, const OptimizerOptions& options,
       WeightDecay decay);

 protected:
  void Prepare() override;
  void Update(const Chunk& chunk) const override;

 private:
  WeightDecay decay_;
  float step_size_ = 0;             // rate / (1 - beta1^t)
  float root_bias_correction_ = 1;  // sqrt(1 - beta2^t)
};

}  // namespace turbolstm
