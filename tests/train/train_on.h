#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "data/bucket_sampler.h"
#include "kernels/cell_kernels.h"
#include "train/model_factory.h"
#include "train/toy_task.h"
#include "train/trainer.h"

namespace turbolstm {

constexpr int64_t kSteps = 20;

// What some steps of training the toy task leave behind.
struct Trained {
  std::vector<double> losses;
  std::vector<std::vector<float>> parameters;
  std::vector<TrainingStep::OptimizerArray> arrays;
  int64_t optimizer_steps = 0;
};

inline Trained TrainOn(const std::string& device, const Config& config) {
  RegisterDeviceCellKernels();
  const TextTask task = MakeToyTask(kSteps * config.train.batch, 0);
  const auto model = MakeClassifier(config.model, task.vocabulary.size(), 2);
  Parameters parameters(model->parameters(), 3);
  const auto step =
      MakeTrainingStep(*model, &parameters, config, ChooseDevice(device), MakePool(config.train));
  BucketSampler sampler(task.train.Lengths(), {.batch = config.train.batch, .seed = 1});
  Trained trained;
  for (int64_t i = 0; !sampler.EpochDone(); ++i) {
    step->Train(MakeBatch(task.train, sampler.Next()), i);
  }
  step->Finish();
  for (const StepLoss& loss : step->TakeLosses()) {
    EXPECT_EQ(loss.step, std::ssize(trained.losses));
    EXPECT_EQ(loss.samples, config.train.batch);
    trained.losses.push_back(loss.loss);
  }
  for (size_t i = 0; i < parameters.specs().size(); ++i) {
    trained.parameters.emplace_back(parameters.values(i).begin(), parameters.values(i).end());
  }
  trained.arrays = step->OptimizerArrays();
  trained.optimizer_steps = step->optimizer_steps();
  EXPECT_EQ(std::ssize(trained.losses), kSteps);
  return trained;
}

}  // namespace turbolstm
