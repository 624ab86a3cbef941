#include "train/host_training_step.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/read_file.h"
#include "io/atomic_file.h"
#include "optim/gradient_clip.h"
#include "plan/print.h"
#include "plan/timeline.h"
#include "train/host_tuning.h"
#include "train/model_factory.h"
#include "train/pool_parallel.h"

namespace turbolstm {

HostTrainingStep::HostTrainingStep(const Model& model, Parameters* parameters, const Config& config,
                                   std::shared_ptr<StreamPool> pool)
    : parameters_(parameters),
      config_(config.train),
      pool_(std::move(pool)),
      parallel_for_(ParallelOver(pool_.get())),
      executable_(WithLossGradients(model),
                  {.precision = PrecisionNamed(config.model.precision),
                   .streams = pool_->streams(),
                   .schedule = ScheduleNamed(config.train.schedule),
                   .tune = HostTuning(config.train.tune),
                   .given_plan = config.train.plan.empty() ? "" : ReadFile(config.train.plan),
                   .recompute = config.train.recompute,
                   .updates = UpdatesOf(model, config.train)},
                  pool_) {
  parameters_->BindTo(&executable_);
  std::vector<OptimizedParameter> optimized;
  for (size_t i = 0; i < parameters_->specs().size(); ++i) {
    const std::span<float> weight = parameters_->values(i);
    const std::string& name = parameters_->specs()[i].name;
    gradients_.emplace_back(weight.size(), 0.0f);
    has_gradient_.push_back(std::ranges::any_of(
        executable_.lowered().outputs,
        [&](const NamedView& output) { return output.name == GradientName(name); }));
    for (size_t first = 0; first < weight.size(); first += kOptimizerChunk) {
      chunks_.push_back({i, first, std::min(kOptimizerChunk, weight.size() - first)});
    }
  }
  if (config_.clip_norm == 0) {
    for (size_t i = 0; i < gradients_.size(); ++i) {
      if (has_gradient_[i]) updated_in_run_.push_back(i);
    }
    executable_.OnUpdate(
        [this](size_t i, int64_t first, int64_t size) { UpdateInRun(i, first, size); });
  }
  for (size_t i = 0; i < gradients_.size(); ++i) {
    gradient_spans_.emplace_back(gradients_[i]);
    optimized.push_back(
        {parameters_->specs()[i].name, parameters_->values(i), gradient_spans_.back()});
  }
  optimizer_ = MakeOptimizer(config_.optimizer, std::move(optimized),
                             {.learning_rate = config_.learning_rate,
                              .weight_decay = config_.weight_decay,
                              .momentum = config_.momentum});
}

// Without clipping, which needs all gradients first, an update is a task of the run.
UpdateOptions HostTrainingStep::UpdatesOf(const Model& model, const TrainConfig& config) {
  UpdateOptions updates{.parameters = {}, .guard = "loss"};
  if (config.clip_norm > 0) return updates;
  const Graph graph = WithLossGradients(model);
  for (const ParameterSpec& spec : model.parameters()) {
    const std::string gradient = GradientName(spec.name);
    if (graph.FindOutput(gradient) != kNoNode) updates.parameters.push_back({gradient, spec.name});
  }
  return updates;
}

void HostTrainingStep::UpdateInRun(size_t update, int64_t first, int64_t size) {
  const size_t parameter = updated_in_run_[update];
  const auto begin = static_cast<size_t>(first);
  const auto count = static_cast<size_t>(size);
  std::ranges::copy(executable_.GradientOf(update).subspan(begin, count),
                    gradients_[parameter].begin() + first);
  if (updating_ && std::isfinite(executable_.Guard()[0])) {
    optimizer_->UpdateRange(parameter, begin, count);
  }
}

void HostTrainingStep::Train(const Batch& batch, int64_t step) {
  if (updated_in_run_.empty()) {
    ComputeGradients(batch, step);
    return Update();
  }
  const int64_t steps = optimizer_->steps();
  optimizer_->Begin();
  updating_ = true;
  try {
    ComputeGradients(batch, step);
  } catch (...) {
    updating_ = false;
    optimizer_->set_steps(steps);
    throw;
  }
  updating_ = false;
  for (size_t i = 0; i < gradients_.size(); ++i) {
    if (!has_gradient_[i]) optimizer_->UpdateRange(i, 0, gradients_[i].size());
  }
  executable_.ParametersChanged();
}

double HostTrainingStep::ComputeGradients(const Batch& batch, int64_t step) {
  CheckStep(step);
  BindBatch(&executable_, batch);
  executable_.Run({.training = true,
                   .seed = static_cast<uint64_t>(config_.seed),
                   .training_step = static_cast<uint32_t>(step)});
  if (!profile_.empty()) WriteProfile();
  const double loss = executable_.Output("loss")[0];
  NoteLoss({step, batch.B, loss});
  if (updated_in_run_.empty()) CopyGradients();
  return loss;
}

void HostTrainingStep::ProfileNext(const std::filesystem::path& folder) {
  profile_ = folder;
  executable_.RecordTimes(true);
}

void HostTrainingStep::WriteProfile() {
  const Plan& plan = executable_.plan();
  const std::vector<TaskTime>& times = executable_.task_times();
  const auto write = [&](std::string_view name, std::string_view text) {
    AtomicFile file(profile_ / name);
    file.Write(text);
    file.Commit();
  };
  std::filesystem::create_directories(profile_);
  const std::string title = fmt::format("training step, T {}, B {}, schedule {}, measured",
                                        plan.steps, plan.batch, config_.schedule);
  write("timeline.svg", PrintSvg(executable_.lowered(), plan, times, title));
  write("trace.json", PrintTrace(plan.partition.tasks, plan.schedule, times));
  write("plan.txt", PrintPlan(plan));
  profile_.clear();
  executable_.RecordTimes(false);
}

// The executable's memory is its own; clipping writes.
void HostTrainingStep::CopyGradients() {
  std::vector<std::span<const float>> outputs(gradients_.size());
  for (size_t i = 0; i < gradients_.size(); ++i) {
    if (has_gradient_[i]) {
      outputs[i] = executable_.Output(GradientName(parameters_->specs()[i].name));
    }
  }
  parallel_for_(std::ssize(chunks_), [&](int64_t index) {
    const Chunk& chunk = chunks_[static_cast<size_t>(index)];
    if (!has_gradient_[chunk.parameter]) return;
    const auto part = outputs[chunk.parameter].subspan(chunk.first, chunk.size);
    std::ranges::copy(
        part, gradients_[chunk.parameter].begin() + static_cast<std::ptrdiff_t>(chunk.first));
  });
}

void HostTrainingStep::Update() {
  if (config_.clip_norm > 0) ClipGlobalNorm(gradient_spans_, config_.clip_norm, parallel_for_);
  optimizer_->Step(parallel_for_);
  executable_.ParametersChanged();
}

std::vector<TrainingStep::OptimizerArray> HostTrainingStep::OptimizerArrays() {
  std::vector<OptimizerArray> arrays;
  for (const OptimizerState& state : optimizer_->State()) {
    arrays.push_back({state.name, {state.values.begin(), state.values.end()}});
  }
  return arrays;
}

}  // namespace turbolstm
