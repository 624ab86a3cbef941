#pragma once

#include <memory>
#include <span>
#include <vector>

#include "optim/optimizer.h"
#include "plan/executable.h"
#include "train/training_step.h"

namespace turbolstm {

// On the CPU: a step is done when Train returns.
class HostTrainingStep final : public TrainingStep {
 public:
  // The parameters must outlive the step.
  HostTrainingStep(const Model& model, Parameters* parameters, const Config& config,
                   std::shared_ptr<StreamPool> pool);

  void Train(const Batch& batch, int64_t step) override;
  void Finish() override {}
  void ProfileNext(const std::filesystem::path& folder) override;
  std::vector<OptimizerArray> OptimizerArrays() override;
  int64_t optimizer_steps() const override { return optimizer_->steps(); }
  double learning_rate() const override { return optimizer_->learning_rate(); }

  // The parts of Train.
  // The mean loss over the batch; leaves its gradients in gradient(i).
  double ComputeGradients(const Batch& batch, int64_t step);
  // Clips the gradients and updates the parameters.
  void Update();

  std::span<const float> gradient(size_t parameter) const { return gradients_[parameter]; }

 private:
  struct Chunk {
    size_t parameter;
    size_t first;
    size_t size;
  };
  static UpdateOptions UpdatesOf(const Model& model, const TrainConfig& config);
  void CopyGradients();
  void UpdateInRun(size_t update, int64_t first, int64_t size);
  void WriteProfile();

  Parameters* parameters_;
  TrainConfig config_;
  std::shared_ptr<StreamPool> pool_;
  ParallelFor parallel_for_;
  Executable executable_;
  std::filesystem::path profile_;  // empty: the next step is not recorded
  std::vector<std::vector<float>> gradients_;
  std::vector<std::span<float>> gradient_spans_;
  std::vector<bool> has_gradient_;  // others stay zero
  std::vector<Chunk> chunks_;
  std::vector<size_t> updated_in_run_;  // parameters, by update of the executable
  bool updating_ = false;               // the run is part of Train
  std::unique_ptr<Optimizer> optimizer_;
};

}  // namespace turbolstm
