#include "train/training_step.h"

#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"
#include "train/host_training_step.h"

namespace turbolstm {

void BindBatch(Execution* execution, const Batch& batch) {
  execution->SetShape(batch.T, batch.B, batch.lengths);
  execution->BindIndices("tokens", batch.tokens);
  execution->BindIndices("label", batch.labels);
}

void TrainingStep::ProfileNext(const std::filesystem::path& folder) {
  Fail("[train] a step on this device cannot be profiled into '{}'; on the CPU it can",
       folder.string());
}

std::vector<StepLoss> TrainingStep::TakeLosses() {
  return std::exchange(losses_, {});
}

void TrainingStep::CheckStep(int64_t step) {
  TL_CHECK(step >= 0 && step < std::numeric_limits<uint32_t>::max(),
           "[train] step {} is too far: random masks are numbered up to 2^32 - 2", step);
}

void TrainingStep::NoteLoss(const StepLoss& loss) {
  TL_CHECK(std::isfinite(loss.loss),
           "[train] the loss of step {} is {}: a smaller train.learning_rate or train.clip_norm "
           "may help",
           loss.step, loss.loss);
  losses_.push_back(loss);
}

std::unique_ptr<TrainingStep> MakeTrainingStep(const Model& model, Parameters* parameters,
                                               const Config& config, const DeviceChoice& device,
                                               const std::shared_ptr<StreamPool>& pool) {
  CheckPrecision(device, PrecisionNamed(config.model.precision));
  if (device.kind == DeviceKind::kCuda) {
    return MakeCudaTrainingStep(model, parameters, config, device.index);
  }
  return std::make_unique<HostTrainingStep>(model, parameters, config, pool);
}

}  // namespace turbolstm
