#include "train/trainer.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/read_file.h"
#include "train/model_factory.h"
#include "train/toy_task.h"

namespace turbolstm {
namespace {

std::vector<EpochReport> TrainIn(const std::filesystem::path& path, const Config& config,
                                 const TextTask& task) {
  std::vector<EpochReport> reports;
  TrainingHooks hooks;
  hooks.on_epoch = [&](const EpochReport& report) { reports.push_back(report); };
  Trainer trainer(config, task);
  EXPECT_TRUE(trainer.Run(RunDirectory(path), hooks));
  return reports;
}

TEST(Trainer, LearnsWhatCanBeLearnt) {
  const TemporaryFolder folder;
  const TextTask task = MakeToyTask(400, 100);
  const std::vector<EpochReport> reports = TrainIn(folder.path(), ToyConfig(), task);
  ASSERT_EQ(reports.size(), 3);
  EXPECT_LT(reports[1].train_loss, reports[0].train_loss);
  EXPECT_LT(reports[2].train_loss, 0.5 * reports[0].train_loss);
  EXPECT_GT(reports[2].held_out.accuracy, 0.95);
  EXPECT_EQ(reports[2].held_out.samples, 100);
  EXPECT_EQ(MajorityShare(task.held_out), 0.5);
}

TEST(Trainer, EveryRuleAndPrecisionLowersTheLoss) {
  const TextTask task = MakeToyTask(200, 0);
  for (const char* optimizer : {"sgd", "adam", "adamw"}) {
    for (const char* precision : {"fp32", "bf16"}) {
      const TemporaryFolder folder;
      Config config = ToyConfig();
      config.train.optimizer = optimizer;
      config.model.precision = precision;
      if (config.train.optimizer == "sgd") config.train.learning_rate = 0.5;
      const std::vector<EpochReport> reports = TrainIn(folder.path(), config, task);
      EXPECT_LT(reports.back().train_loss, reports.front().train_loss)
          << optimizer << " " << precision;
    }
  }
}

TEST(Trainer, SameConfigGivesTheSameBytes) {
  const TemporaryFolder a;
  const TemporaryFolder b;
  const TemporaryFolder c;
  const TextTask task = MakeToyTask(100, 20);
  Config config = ToyConfig();
  config.model.dropout = 0.3;
  config.output.directory = a.path();
  TrainIn(a.path(), config, task);
  config.output.directory = b.path();
  TrainIn(b.path(), config, task);
  config.train.seed = 2;
  TrainIn(c.path(), config, task);
  for (const char* file : {"checkpoint.safetensors", "best.safetensors", "vocabulary.txt"}) {
    EXPECT_EQ(ReadFile(a.path() / file), ReadFile(b.path() / file)) << file;
  }
  EXPECT_NE(ReadFile(a.path() / "checkpoint.safetensors"),
            ReadFile(c.path() / "checkpoint.safetensors"));
}

TEST(Trainer, CheckpointHoldsAllThatTrainingNeeds) {
  const TemporaryFolder folder;
  const TextTask task = MakeToyTask(100, 20);
  const Config config = ToyConfig();
  TrainIn(folder.path(), config, task);
  const Checkpoint last = LoadCheckpoint(RunDirectory(folder.path()).last());
  EXPECT_EQ(last.header.config.model, config.model);
  EXPECT_EQ(last.header.labels, task.labels);
  EXPECT_EQ(last.header.progress.epochs_done, 3);
  EXPECT_EQ(last.header.progress.step, 3 * 7);
  EXPECT_EQ(last.header.progress.optimizer_steps, 3 * 7);
  EXPECT_EQ(last.header.progress.learning_rate, config.train.learning_rate);
  EXPECT_NE(last.file.Find("lstm.weight_ih_l0"), nullptr);
  EXPECT_NE(last.file.Find("optimizer.lstm.weight_ih_l0.exp_avg_sq"), nullptr);
  const Checkpoint best = LoadCheckpoint(RunDirectory(folder.path()).best());
  EXPECT_EQ(best.file.Find("optimizer.lstm.weight_ih_l0.exp_avg_sq"), nullptr);
}

TEST(Trainer, SavedWeightsEvaluateAsReported) {
  const TemporaryFolder folder;
  const TextTask task = MakeToyTask(60, 40);
  const std::vector<EpochReport> reports = TrainIn(folder.path(), ToyConfig(), task);
  const RunDirectory directory(folder.path());
  const auto best = LoadCheckpoint(directory.best());
  Trainer fresh(ToyConfig(), task);  // other weights until they are loaded
  const auto model = MakeClassifier(ToyConfig().model, task.vocabulary.size(), 2);
  Parameters parameters(model->parameters(), 99);
  Evaluator evaluator(*model, parameters, Precision::kFloat32, {}, MakePool(ToyConfig().train));
  parameters.Load(best.file, "best");
  const Evaluation result = evaluator.Evaluate(task.held_out, 16);
  const auto& report = reports[static_cast<size_t>(best.header.progress.best_epoch - 1)];
  EXPECT_EQ(result.accuracy, report.held_out.accuracy);
  EXPECT_NEAR(result.loss, report.held_out.loss, 1e-6);
}

TEST(Trainer, StopsAfterTheBatchWithACheckpoint) {
  const TemporaryFolder folder;
  const TextTask task = MakeToyTask(112, 20);
  int64_t batches = 0;
  TrainingHooks hooks;
  hooks.on_batch = [&](const BatchReport& report) {
    ++batches;
    EXPECT_EQ(report.batches, 7);
  };
  hooks.stop = [&] { return batches == 9; };
  Trainer trainer(ToyConfig(), task);
  EXPECT_FALSE(trainer.Run(RunDirectory(folder.path()), hooks));
  const TrainingProgress progress =
      LoadCheckpoint(RunDirectory(folder.path()).last()).header.progress;
  EXPECT_EQ(progress.step, 9);
  EXPECT_EQ(progress.epochs_done, 1);
  EXPECT_EQ(progress.sampler, (SamplerState{1, 2}));
  EXPECT_EQ(progress.samples, 32);
  EXPECT_GT(progress.loss_sum, 0);
}

TEST(Trainer, WithoutEpochsTheInitialWeightsAreSaved) {
  const TemporaryFolder folder;
  Config config = ToyConfig();
  config.train.epochs = 0;
  EXPECT_TRUE(TrainIn(folder.path(), config, MakeToyTask(10, 0)).empty());
  EXPECT_EQ(LoadCheckpoint(RunDirectory(folder.path()).ToLoad()).header.progress.step, 0);
}

TEST(Trainer, WithoutHeldOutTextsTheLastEpochIsTheBest) {
  const TemporaryFolder folder;
  TrainIn(folder.path(), ToyConfig(), MakeToyTask(30, 0));
  EXPECT_EQ(LoadCheckpoint(RunDirectory(folder.path()).best()).header.progress.best_epoch, 3);
}

TEST(Trainer, NothingToTrainOnIsAnError) {
  EXPECT_THROW(Trainer(ToyConfig(), MakeToyTask(0, 10)), Error);
}

}  // namespace
}  // namespace turbolstm
