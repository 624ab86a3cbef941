#pragma once

#include <memory>
#include <span>
#include <vector>

#include "data/batch.h"
#include "nn/model.h"
#include "optim/optimizer.h"
#include "plan/executable.h"
#include "train/config.h"
#include "train/parameters.h"

namespace turbolstm {

// Binds tokens and lengths of a batch, and sets the shape.
void BindBatch(Executable* executable, const Batch& batch);

// One step of training a classifier: forward and backward in one plan, clipping, update.
class TrainingStep {
 public:
  // The parameters must outlive the step.
  TrainingStep(const Model& model, Parameters* parameters, const Config& config,
               std::shared_ptr<StreamPool> pool);

  // The mean loss over the batch; leaves its gradients in gradient(i). `step` counts from 0 and
  // decides the dropout masks.
  double ComputeGradients(const Batch& batch, int64_t step);
  // Clips the gradients and updates the parameters.
  void Update();

  std::span<const float> gradient(size_t parameter) const { return gradients_[parameter]; }
  Optimizer& optimizer() { return *optimizer_; }

 private:
  struct Chunk {
    size_t parameter;
    size_t first;
    size_t size;
  };
  void CopyGradients();

  Parameters* parameters_;
  TrainConfig config_;
  std::shared_ptr<StreamPool> pool_;
  ParallelFor parallel_for_;
  Executable executable_;
  std::vector<std::vector<float>> gradients_;
  std::vector<std::span<float>> gradient_spans_;
  std::vector<bool> has_gradient_;  // others stay zero
  std::vector<Chunk> chunks_;
  std::unique_ptr<Optimizer> optimizer_;
};

}  // namespace turbolstm
