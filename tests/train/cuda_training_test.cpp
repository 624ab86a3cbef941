// Training on an NVIDIA GPU goes the way it goes on the CPU.

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "backend/cuda/testing/gpu.h"
#include "base/error_test.h"
#include "base/read_file.h"
#include "data/bucket_sampler.h"
#include "train/model_factory.h"
#include "train/toy_task.h"
#include "train/train_on.h"
#include "train/trainer.h"
#include "train/training_step_cuda.h"

namespace turbolstm {
namespace {

// fp32 on both: of a loss, over some steps of the same updates.
constexpr double kLossTolerance = 2e-4;
// Of the trained weights, which drift apart with the roundings of each step; where Adam divides by
// the root of a tiny second moment, a rounding moves a weight by up to a learning rate.
constexpr double kWeightTolerance = 5e-3;
// Of the norm of all gradients, fp16 against fp32.
constexpr double kNormTolerance = 1e-2;

double LargestDifference(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(double{a[i]} - double{b[i]}));
  }
  return largest;
}

void ExpectTheSameOnBoth(const Config& config) {
  const Trained cpu = TrainOn("cpu", config);
  const Trained gpu = TrainOn("cuda", config);
  const Trained again = TrainOn("cuda", config);
  for (size_t i = 0; i < cpu.losses.size(); ++i) {
    EXPECT_NEAR(gpu.losses[i], cpu.losses[i], kLossTolerance) << "step " << i;
  }
  for (size_t i = 0; i < cpu.parameters.size(); ++i) {
    EXPECT_LT(LargestDifference(gpu.parameters[i], cpu.parameters[i]), kWeightTolerance) << i;
  }
  ASSERT_EQ(gpu.arrays.size(), cpu.arrays.size());
  for (size_t i = 0; i < cpu.arrays.size(); ++i) {
    EXPECT_EQ(gpu.arrays[i].name, cpu.arrays[i].name);
    EXPECT_EQ(gpu.arrays[i].values.size(), cpu.arrays[i].values.size());
  }
  EXPECT_EQ(gpu.optimizer_steps, kSteps);
  EXPECT_EQ(again.losses, gpu.losses) << "the same training twice";
  EXPECT_EQ(again.parameters, gpu.parameters) << "the same training twice";
}

TEST(CudaTraining, GoesTheWayOfTheCpu) {
  SKIP_WITHOUT_GPU();
  for (const char* rule : {"sgd", "adam", "adamw"}) {
    Config config = ToyConfig();
    config.train.optimizer = rule;
    config.train.weight_decay = 0.01;
    if (config.train.optimizer == "sgd") {
      config.train.learning_rate = 0.3;
      config.train.momentum = 0.5;
    }
    ExpectTheSameOnBoth(config);
  }
}

TEST(CudaTraining, GoesTheWayOfTheCpuWithDropoutLayersAndDirections) {
  SKIP_WITHOUT_GPU();
  Config config = ToyConfig();
  config.model.dropout = 0.3;
  config.model.layers = 2;
  config.model.bidirectional = true;
  config.model.pooling = "mean";
  ExpectTheSameOnBoth(config);
}

TEST(CudaTraining, EveryPrecisionLowersTheLoss) {
  SKIP_WITHOUT_GPU();
  for (const char* precision : {"tf32", "bf16", "fp16", "bf16x6"}) {
    Config config = ToyConfig();
    config.model.precision = precision;
    const Trained trained = TrainOn("cuda", config);
    EXPECT_LT(trained.losses.back(), 0.9 * trained.losses.front()) << precision;
    EXPECT_GE(trained.optimizer_steps, kSteps - 3) << precision;  // fp16 may skip some at first
    EXPECT_EQ(TrainOn("cuda", config).parameters, trained.parameters) << precision;
  }
}

// What the first step says of its update.
cuda::UpdateReport FirstReport(const std::string& precision) {
  Config config = ToyConfig();
  config.model.precision = precision;
  const TextTask task = MakeToyTask(config.train.batch, 0);
  const auto model = MakeClassifier(config.model, task.vocabulary.size(), 2);
  Parameters parameters(model->parameters(), 3);
  cuda::CudaTrainingStep step(*model, &parameters, config, 0);
  BucketSampler sampler(task.train.Lengths(), {.batch = config.train.batch, .seed = 1});
  step.Train(MakeBatch(task.train, sampler.Next()), 0);
  step.Finish();
  return step.report();
}

TEST(CudaTraining, GradientsOfAScaledLossAreUnscaled) {
  SKIP_WITHOUT_GPU();
  const cuda::UpdateReport wanted = FirstReport("fp32");
  const cuda::UpdateReport scaled = FirstReport("fp16");
  EXPECT_EQ(wanted.loss_scale, 1);
  EXPECT_EQ(scaled.loss_scale, cuda::kFirstLossScale);
  EXPECT_EQ(scaled.updated, 1);
  EXPECT_GT(wanted.norm, 0);
  EXPECT_NEAR(scaled.norm / wanted.norm, 1, kNormTolerance);
}

TEST(CudaTraining, ALossThatIsNotFiniteIsNamedWithItsStep) {
  SKIP_WITHOUT_GPU();
  const Config config = ToyConfig();
  const TextTask task = MakeToyTask(20, 0);
  const auto model = MakeClassifier(config.model, task.vocabulary.size(), 2);
  Parameters parameters(model->parameters(), 3);
  for (float& value : parameters.values(parameters.specs().size() - 1)) value = NAN;
  const auto step =
      MakeTrainingStep(*model, &parameters, config, ChooseDevice("cuda"), MakePool(config.train));
  const Batch batch = MakeBatch(task.train, std::vector<int64_t>{0, 1, 2});
  const std::string error = ErrorOf([&] {
    step->Train(batch, 12);
    step->Finish();
  });
  ExpectParts(error, {"step 12", "nan", "learning_rate"});
}

TEST(CudaTraining, RunsAreOfOneFormOnBothDevices) {
  SKIP_WITHOUT_GPU();
  const TextTask task = MakeToyTask(200, 100);
  Config config = ToyConfig();
  config.train.device = "cuda";
  const TemporaryFolder gpu;
  Trainer trainer(config, task);
  EXPECT_EQ(trainer.device().kind, DeviceKind::kCuda);
  std::vector<EpochReport> reports;
  TrainingHooks hooks;
  hooks.on_epoch = [&](const EpochReport& report) { reports.push_back(report); };
  EXPECT_TRUE(trainer.Run(RunDirectory(gpu.path()), hooks));
  EXPECT_LT(reports.back().train_loss, reports.front().train_loss);
  config.train.device = "cpu";
  const TemporaryFolder cpu;
  EXPECT_TRUE(Trainer(config, task).Run(RunDirectory(cpu.path())));
  const Checkpoint here = LoadCheckpoint(RunDirectory(cpu.path()).last());
  const Checkpoint there = LoadCheckpoint(RunDirectory(gpu.path()).last());
  EXPECT_EQ(here.header.config, there.header.config);
  EXPECT_EQ(here.header.progress.optimizer_steps, there.header.progress.optimizer_steps);
  ASSERT_EQ(here.file.tensors.size(), there.file.tensors.size());
  for (size_t i = 0; i < here.file.tensors.size(); ++i) {
    EXPECT_EQ(here.file.tensors[i].name, there.file.tensors[i].name);
    EXPECT_EQ(here.file.tensors[i].shape, there.file.tensors[i].shape);
  }
  // Weights of the one answer on the other.
  const auto model = MakeClassifier(config.model, task.vocabulary.size(), 2);
  Parameters parameters(model->parameters(), 99);
  parameters.Load(there.file, "gpu");
  for (const char* device : {"cpu", "cuda"}) {
    Evaluator evaluator(*model, parameters, Precision::kFloat32, ChooseDevice(device),
                        MakePool(config.train));
    const Evaluation result = evaluator.Evaluate(task.held_out, 16);
    EXPECT_NEAR(result.loss, reports.back().held_out.loss, 1e-5) << device;
    EXPECT_EQ(result.accuracy, reports.back().held_out.accuracy) << device;
  }
}

}  // namespace
}  // namespace turbolstm
