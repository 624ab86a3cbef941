#pragma once

#include <array>
#include <deque>
#include <memory>
#include <vector>

#include "backend/cuda/runtime_cuda.h"
#include "execution/executable_cuda.h"
#include "optim/update_cuda.h"
#include "train/training_step.h"

namespace turbolstm::cuda {

// On a GPU, where the parameters live until Finish: forward, backward, clipping and update are one
// recorded graph for each shape. Losses become known one step late, so that the device always has
// work while the host prepares the next batch. In fp16 the loss is scaled (see DeviceOptimizer).
class CudaTrainingStep final : public TrainingStep {
 public:
  // The parameters must outlive the step.
  CudaTrainingStep(const Model& model, Parameters* parameters, const Config& config, int device);

  void Train(const Batch& batch, int64_t step) override;
  void Finish() override;
  std::vector<OptimizerArray> OptimizerArrays() override;
  int64_t optimizer_steps() const override { return steps_; }
  double learning_rate() const override { return learning_rate_; }

  const CudaExecutable& executable() const { return executable_; }
  // On the device, of the largest shape so far.
  int64_t memory_bytes() const { return executable_.memory_bytes() + optimizer_->memory_bytes(); }
  // Of the last step whose loss is known.
  const UpdateReport& report() const { return report_; }

 private:
  struct Begun {
    int64_t number;  // of its update
    int64_t step;
    int64_t samples;
  };

  void MakeOptimizer(const TrainConfig& config);
  void EnqueueUpdate(cudaStream_t stream);
  void AwaitOldest();

  Parameters* parameters_;
  bool scaled_;
  uint64_t seed_;
  double learning_rate_;
  CudaExecutable executable_;
  std::vector<bool> has_gradient_;  // by parameter
  std::unique_ptr<DeviceOptimizer> optimizer_;
  std::array<Event, kUpdateReports> done_;  // by number
  std::deque<Begun> begun_;                 // losses not known yet
  int64_t updates_ = 0;
  int64_t steps_ = 0;
  UpdateReport report_;
};

}  // namespace turbolstm::cuda
