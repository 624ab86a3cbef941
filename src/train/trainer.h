#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>

#include "data/bucket_sampler.h"
#include "nn/model.h"
#include "runtime/stream_pool.h"
#include "train/checkpoint.h"
#include "train/config.h"
#include "train/device_choice.h"
#include "train/evaluator.h"
#include "train/parameters.h"
#include "train/run_directory.h"
#include "train/text_task.h"
#include "train/training_step.h"

namespace turbolstm {

struct BatchReport {
  int64_t epoch = 0;  // counts from 1
  int64_t batch = 0;  // of this epoch, done
  int64_t batches = 0;
  double loss = 0;  // mean of this epoch's samples so far, as far as it is known; 0 before
};

struct EpochReport {
  int64_t epoch = 0;  // counts from 1
  double train_loss = 0;
  Evaluation held_out;
  double seconds = 0;  // of the epoch's training, without evaluation
  double evaluation_seconds = 0;
  double tokens_per_second = 0;  // of training, without padding
  bool best = false;             // so far
};

struct TrainingHooks {
  std::function<void(const BatchReport&)> on_batch = [](const BatchReport&) {};
  std::function<void(const EpochReport&)> on_epoch = [](const EpochReport&) {};
  // Asked after every batch; true ends the run with a checkpoint.
  std::function<bool()> stop = [] { return false; };
};

// Trains a classifier of texts. The same config and data give the same bytes in the checkpoint.
class Trainer {
 public:
  // The task must outlive the trainer. Throws Error for a config that describes no model, and for
  // a device that does not answer or does not train in the config's precision.
  Trainer(const Config& config, const TextTask& task);

  const DeviceChoice& device() const { return device_; }
  const Parameters& parameters() const { return parameters_; }
  const TrainingProgress& progress() const { return progress_; }

  // Trains for config.train.epochs epochs, writing to the folder behind each; false when a hook
  // stopped it before. Without held-out samples the best epoch is the last.
  bool Run(const RunDirectory& directory, const TrainingHooks& hooks = {});

  // Makes Run write what an early step did and when to the folder (see TrainingStep::ProfileNext).
  void Profile(std::filesystem::path folder) { profile_ = std::move(folder); }

 private:
  bool TrainEpoch(const TrainingHooks& hooks, EpochReport* report);
  bool IsProfiled() const;
  void CountLosses();
  void NoteBest(EpochReport* report);
  void Save(const RunDirectory& directory, bool best);
  std::vector<NamedTensor> OptimizerTensors();

  Config config_;
  const TextTask& task_;
  std::unique_ptr<Model> model_;
  Parameters parameters_;
  DeviceChoice device_;
  std::shared_ptr<StreamPool> pool_;
  std::unique_ptr<TrainingStep> step_;
  Evaluator evaluator_;
  BucketSampler sampler_;
  TrainingProgress progress_;
  std::filesystem::path profile_;
};

// A pool of config.threads streams, or of one for each core where that is 0.
std::shared_ptr<StreamPool> MakePool(const TrainConfig& config);

}  // namespace turbolstm
