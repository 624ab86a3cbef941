#include "train/trainer.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <thread>

#include "base/error.h"
#include "io/atomic_file.h"
#include "train/model_factory.h"

namespace turbolstm {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void WriteText(const std::filesystem::path& path, std::string_view text) {
  AtomicFile file(path);
  file.Write(text);
  file.Commit();
}

std::string LogHeader() {
  return "epoch,train_loss,held_out_loss,held_out_accuracy,seconds,evaluation_seconds,"
         "tokens_per_second\n";
}

std::string LogLine(const EpochReport& report) {
  return fmt::format("{},{},{},{},{:.3f},{:.3f},{:.0f}\n", report.epoch, report.train_loss,
                     report.held_out.loss, report.held_out.accuracy, report.seconds,
                     report.evaluation_seconds, report.tokens_per_second);
}

}  // namespace

std::shared_ptr<StreamPool> MakePool(const TrainConfig& config) {
  const int64_t cores = std::max<int64_t>(1, std::thread::hardware_concurrency());
  return std::make_shared<StreamPool>(
      static_cast<int>(config.threads > 0 ? config.threads : cores));
}

Trainer::Trainer(const Config& config, const TextTask& task)
    : config_(config),
      task_(task),
      model_(MakeClassifier(config.model, task.vocabulary.size(), std::ssize(task.labels))),
      parameters_(model_->parameters(), static_cast<uint64_t>(config.train.seed)),
      device_(ChooseDevice(config.train.device)),
      pool_(MakePool(config.train)),
      step_(MakeTrainingStep(*model_, &parameters_, config, device_, pool_)),
      evaluator_(*model_, parameters_, PrecisionNamed(config.model.precision), device_, pool_),
      sampler_(task.train.Lengths(),
               {.batch = config.train.batch, .seed = static_cast<uint64_t>(config.train.seed)}) {
  TL_CHECK(task.train.size() > 0, "[train] there are no samples to train on");
  progress_.learning_rate = config.train.learning_rate;
}

bool Trainer::Run(const RunDirectory& directory, const TrainingHooks& hooks) {
  directory.Create();
  WriteText(directory.config(), FormatConfig(config_));
  WriteText(directory.vocabulary(), task_.vocabulary.ToText());
  std::string log = LogHeader();
  WriteText(directory.log(), log);
  if (config_.train.epochs == 0) Save(directory, true);
  while (progress_.epochs_done < config_.train.epochs) {
    EpochReport report;
    if (!TrainEpoch(hooks, &report)) {
      Save(directory, false);
      return false;
    }
    const Clock::time_point begin = Clock::now();
    report.held_out = evaluator_.Evaluate(task_.held_out, config_.train.batch);
    report.evaluation_seconds = SecondsSince(begin);
    NoteBest(&report);
    Save(directory, report.best);
    log += LogLine(report);
    WriteText(directory.log(), log);
    hooks.on_epoch(report);
    if (hooks.stop() && progress_.epochs_done < config_.train.epochs) return false;
  }
  return true;
}

// A step by which code and memory are warm.
bool Trainer::IsProfiled() const {
  constexpr int64_t kStep = 10;
  return !profile_.empty() && progress_.step == std::min(kStep, sampler_.BatchesPerEpoch() - 1);
}

// False when a hook stops it before the epoch's end.
bool Trainer::TrainEpoch(const TrainingHooks& hooks, EpochReport* report) {
  const Clock::time_point begin = Clock::now();
  sampler_.StartEpoch(progress_.epochs_done);
  progress_.loss_sum = 0;
  progress_.samples = 0;
  int64_t tokens = 0;
  while (!sampler_.EpochDone()) {
    const Batch batch = MakeBatch(task_.train, sampler_.Next());
    if (IsProfiled()) step_->ProfileNext(profile_);
    step_->Train(batch, progress_.step);
    ++progress_.step;
    if (sampler_.EpochDone()) step_->Finish();
    CountLosses();
    for (const int32_t length : batch.lengths) tokens += length;
    hooks.on_batch(
        {progress_.epochs_done + 1, sampler_.State().next_batch, sampler_.BatchesPerEpoch(),
         progress_.loss_sum / static_cast<double>(std::max<int64_t>(1, progress_.samples))});
    if (!sampler_.EpochDone() && hooks.stop()) return false;
  }
  ++progress_.epochs_done;
  report->epoch = progress_.epochs_done;
  report->train_loss = progress_.loss_sum / static_cast<double>(progress_.samples);
  report->seconds = SecondsSince(begin);
  report->tokens_per_second = static_cast<double>(tokens) / std::max(report->seconds, 1e-9);
  return true;
}

void Trainer::CountLosses() {
  for (const StepLoss& known : step_->TakeLosses()) {
    progress_.loss_sum += known.loss * static_cast<double>(known.samples);
    progress_.samples += known.samples;
  }
}

void Trainer::NoteBest(EpochReport* report) {
  const bool measured = report->held_out.samples > 0;
  if (measured && progress_.best_epoch > 0 &&
      report->held_out.accuracy <= progress_.best_accuracy) {
    return;
  }
  report->best = true;
  progress_.best_epoch = report->epoch;
  progress_.best_accuracy = report->held_out.accuracy;
}

void Trainer::Save(const RunDirectory& directory, bool best) {
  step_->Finish();
  CountLosses();
  progress_.sampler = sampler_.State();
  progress_.optimizer_steps = step_->optimizer_steps();
  progress_.learning_rate = step_->learning_rate();
  const CheckpointHeader header{config_, task_.labels, progress_};
  std::vector<NamedTensor> tensors = parameters_.Tensors();
  if (best) SaveCheckpoint(directory.best(), header, tensors);
  std::ranges::move(OptimizerTensors(), std::back_inserter(tensors));
  SaveCheckpoint(directory.last(), header, std::move(tensors));
}

std::vector<NamedTensor> Trainer::OptimizerTensors() {
  std::vector<NamedTensor> tensors;
  for (const TrainingStep::OptimizerArray& array : step_->OptimizerArrays()) {
    tensors.push_back(MakeTensor(std::string(kOptimizerPrefix) + array.name,
                                 {std::ssize(array.values)}, array.values));
  }
  return tensors;
}

}  // namespace turbolstm
