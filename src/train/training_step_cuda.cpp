#include "train/training_step_cuda.h"

#include <algorithm>

#include "train/model_factory.h"

namespace turbolstm {

std::unique_ptr<TrainingStep> MakeCudaTrainingStep(const Model& model, Parameters* parameters,
                                                   const Config& config, int device) {
  return std::make_unique<cuda::CudaTrainingStep>(model, parameters, config, device);
}

namespace cuda {
namespace {

// Steps that the device may have in hand while the host goes on.
constexpr size_t kStepsAhead = 1;
static_assert(kStepsAhead + 1 < kUpdateReports);

bool IsScaled(const Config& config) {
  return PrecisionNamed(config.model.precision) == Precision::kFloat16;
}

}  // namespace

CudaTrainingStep::CudaTrainingStep(const Model& model, Parameters* parameters, const Config& config,
                                   int device)
    : parameters_(parameters),
      scaled_(IsScaled(config)),
      seed_(static_cast<uint64_t>(config.train.seed)),
      learning_rate_(config.train.learning_rate),
      executable_(WithLossGradients(model, scaled_ ? LossScaling::kScaled : LossScaling::kNone),
                  {.index = device,
                   .precision = PrecisionNamed(config.model.precision),
                   .recompute = config.train.recompute,
                   .schedule = ScheduleNamed(config.train.schedule),
                   .in_turns = config.train.schedule == Name(ScheduleKind::kAuto)}) {
  parameters_->BindTo(&executable_);
  if (scaled_) executable_.Bind(kLossScale, std::span(&kFirstLossScale, 1));
  for (const ParameterSpec& spec : parameters_->specs()) {
    has_gradient_.push_back(std::ranges::any_of(
        executable_.lowered().outputs,
        [&](const NamedView& output) { return output.name == GradientName(spec.name); }));
  }
  MakeOptimizer(config.train);
  executable_.AppendToRun([this](cudaStream_t stream) { EnqueueUpdate(stream); });
}

void CudaTrainingStep::MakeOptimizer(const TrainConfig& config) {
  std::vector<DeviceParameter> parameters;
  for (size_t i = 0; i < parameters_->specs().size(); ++i) {
    const std::string& name = parameters_->specs()[i].name;
    parameters.push_back({name, executable_.Parameter(name), std::ssize(parameters_->values(i))});
  }
  UpdateOptions options;
  options.optimizer.learning_rate = config.learning_rate;
  options.optimizer.weight_decay = config.weight_decay;
  options.optimizer.momentum = config.momentum;
  options.clip_norm = config.clip_norm;
  if (scaled_) options.loss_scale = executable_.Parameter(kLossScale);
  optimizer_ = std::make_unique<DeviceOptimizer>(config.optimizer, std::move(parameters), options);
}

// Gradients move with the shape; this is called when a shape is recorded.
void CudaTrainingStep::EnqueueUpdate(cudaStream_t stream) {
  std::vector<const float*> gradients(has_gradient_.size(), nullptr);
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (!has_gradient_[i]) continue;
    gradients[i] = executable_.DeviceOutput(GradientName(parameters_->specs()[i].name));
  }
  optimizer_->Enqueue(gradients, executable_.DeviceOutput("loss"), stream);
}

void CudaTrainingStep::Train(const Batch& batch, int64_t step) {
  CheckStep(step);
  BindBatch(&executable_, batch);
  executable_.Run({.training = true, .seed = seed_, .training_step = static_cast<uint32_t>(step)});
  const int64_t number = updates_++;
  done_[static_cast<size_t>(number % kUpdateReports)].Record(executable_.stream());
  begun_.push_back({number, step, batch.B});
  while (begun_.size() > kStepsAhead) AwaitOldest();
}

void CudaTrainingStep::AwaitOldest() {
  const Begun oldest = begun_.front();
  begun_.pop_front();
  done_[static_cast<size_t>(oldest.number % kUpdateReports)].Synchronize();
  report_ = optimizer_->report(oldest.number);
  NoteLoss({oldest.step, oldest.samples, double{report_.loss}});
}

void CudaTrainingStep::Finish() {
  while (!begun_.empty()) AwaitOldest();
  if (updates_ == 0) return;  // the device has no parameters yet
  executable_.Synchronize();
  for (size_t i = 0; i < parameters_->specs().size(); ++i) {
    executable_.ReadParameter(parameters_->specs()[i].name, parameters_->values(i));
  }
  steps_ = optimizer_->ReadSteps(executable_.stream());
}

std::vector<TrainingStep::OptimizerArray> CudaTrainingStep::OptimizerArrays() {
  std::vector<OptimizerArray> arrays;
  for (DeviceOptimizer::SlotValues& slot : optimizer_->ReadSlots(executable_.stream())) {
    arrays.push_back({std::move(slot.name), std::move(slot.values)});
  }
  return arrays;
}

}  // namespace cuda
}  // namespace turbolstm
