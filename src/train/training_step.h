#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/batch.h"
#include "nn/model.h"
#include "plan/execution.h"
#include "runtime/stream_pool.h"
#include "train/config.h"
#include "train/device_choice.h"
#include "train/parameters.h"

namespace turbolstm {

// Binds tokens and labels of a batch, and sets the shape.
void BindBatch(Execution* execution, const Batch& batch);

struct StepLoss {
  int64_t step = 0;
  int64_t samples = 0;
  double loss = 0;  // mean over the samples, before the update
};

// Steps of training a classifier: forward and backward in one plan, clipping, update.
class TrainingStep {
 public:
  virtual ~TrainingStep() = default;

  // One step, or its beginning: a device may still work on it behind this. `step` counts from 0 and
  // decides the dropout masks. Error: the loss of this step, or of one before that was not known
  // yet, is not finite; no update has been made since.
  virtual void Train(const Batch& batch, int64_t step) = 0;
  // Ends every step that has begun and brings what they changed to the parameters and states here.
  virtual void Finish() = 0;

  // Losses that became known since the last call, in the order of the steps: all behind Finish.
  std::vector<StepLoss> TakeLosses();

  // Makes the next Train write to the folder what its step did and when: timeline.svg, trace.json,
  // plan.txt. Error: this device cannot.
  virtual void ProfileNext(const std::filesystem::path& folder);

  // As of the last Finish: what a checkpoint keeps of the optimiser.
  struct OptimizerArray {
    std::string name;  // "<parameter>.exp_avg" and the like
    std::vector<float> values;
  };
  virtual std::vector<OptimizerArray> OptimizerArrays() = 0;
  virtual int64_t optimizer_steps() const = 0;  // updates made
  virtual double learning_rate() const = 0;

 protected:
  // Masks are numbered by 32 bits.
  static void CheckStep(int64_t step);
  // Keeps it for TakeLosses; error unless it is finite.
  void NoteLoss(const StepLoss& loss);

 private:
  std::vector<StepLoss> losses_;
};

// The parameters must outlive the step. Error: the device lacks what the config wants.
std::unique_ptr<TrainingStep> MakeTrainingStep(const Model& model, Parameters* parameters,
                                               const Config& config, const DeviceChoice& device,
                                               const std::shared_ptr<StreamPool>& pool);
// Of a device of that kind.
std::unique_ptr<TrainingStep> MakeCudaTrainingStep(const Model& model, Parameters* parameters,
                                                   const Config& config, int device);

}  // namespace turbolstm
