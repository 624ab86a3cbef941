// How steps of training run on an NVIDIA GPU: without the host waiting within one, with the same
// bits in every process, whatever memory held before. Rows 40 and 50 of the list of faults reported
// to others.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <future>

#include "backend/cuda/check_cuda.h"
#include "backend/cuda/testing/filled_memory.h"
#include "backend/cuda/testing/gpu.h"
#include "base/error.h"
#include "train/train_on.h"
#include "train/training_step_cuda.h"

namespace turbolstm {
namespace {

Config ConfigOf(Precision precision) {
  Config config = ToyConfig();
  config.model.precision = Name(precision);
  return config;
}

// Work on a stream that lasts until it is told to end, or some seconds.
class Obstacle {
 public:
  static constexpr std::chrono::seconds kPatience{10};

  explicit Obstacle(const cuda::Stream& stream) : wait_(end_.get_future()) {
    TL_CUDA_CHECK(cudaLaunchHostFunc(
        stream.get(),
        [](void* self) {
          auto* const obstacle = static_cast<Obstacle*>(self);
          obstacle->lost_ = obstacle->wait_.wait_for(kPatience) != std::future_status::ready;
        },
        this));
  }
  void Remove() { end_.set_value(); }
  // Behind the stream's end: nobody removed it in time.
  bool lost() const { return lost_; }

 private:
  std::promise<void> end_;
  std::future<void> wait_;
  bool lost_ = false;
};

// The host goes on while something that the device waits for has not even begun: were there one
// wait for the device within a step, Train would return only when the obstacle has been lost.
TEST(CudaSteps, TheHostDoesNotWaitWithinAStep) {
  SKIP_WITHOUT_GPU();
  RegisterDeviceCellKernels();
  for (const Precision precision : kPrecisions) {
    const Config config = ConfigOf(precision);
    const TextTask task = MakeToyTask(config.train.batch, 0);
    const auto model = MakeClassifier(config.model, task.vocabulary.size(), 2);
    Parameters parameters(model->parameters(), 3);
    cuda::CudaTrainingStep step(*model, &parameters, config, 0);
    BucketSampler sampler(task.train.Lengths(), {.batch = config.train.batch, .seed = 1});
    const Batch batch = MakeBatch(task.train, sampler.Next());
    const Batch smaller = MakeBatch(task.train, std::vector<int64_t>{0, 1, 2});
    for (int64_t i = 0; i < 4; ++i) step.Train(i % 2 == 0 ? batch : smaller, i);  // records both
    step.Finish();
    step.TakeLosses();
    Obstacle obstacle(step.executable().stream());
    step.Train(batch, 4);  // not the last one's shape
    EXPECT_EQ(cudaStreamQuery(step.executable().stream().get()), cudaErrorNotReady)
        << Name(precision);
    cudaGetLastError();  // or a later launch would report what this query found
    EXPECT_TRUE(step.TakeLosses().empty()) << Name(precision);
    obstacle.Remove();
    step.Finish();
    EXPECT_FALSE(obstacle.lost()) << Name(precision) << ": the step waited for the device";
    EXPECT_EQ(step.TakeLosses().size(), 1u) << Name(precision);
  }
}

// Of a loss in another precision than fp32, at the first step.
constexpr double kNarrowLossTolerance = 2e-2;

// Small enough for tools that watch every access to memory.
TEST(CudaSteps, TinyOnes) {
  SKIP_WITHOUT_GPU();
  RegisterDeviceCellKernels();
  double in_float32 = 0;
  for (const Precision precision : kPrecisions) {
    Config config = ConfigOf(precision);
    config.model.hidden = 32;
    const TextTask task = MakeToyTask(4, 0);
    const auto model = MakeClassifier(config.model, task.vocabulary.size(), 2);
    Parameters parameters(model->parameters(), 3);
    cuda::CudaTrainingStep step(*model, &parameters, config, 0);
    const Batch batch = MakeBatch(task.train, std::vector<int64_t>{0, 1, 2});
    for (int64_t i = 0; i < 2; ++i) step.Train(batch, i);
    step.Finish();
    const std::vector<StepLoss> losses = step.TakeLosses();
    ASSERT_EQ(losses.size(), 2u);
    if (precision == kPrecisions[0]) in_float32 = losses[0].loss;
    EXPECT_NEAR(losses[0].loss, in_float32, kNarrowLossTolerance) << Name(precision);
  }
}

// Memory that is not written before it is read would be no number here.
TEST(CudaSteps, DoNotDependOnWhatMemoryHeldBefore) {
  SKIP_WITHOUT_GPU();
  for (const Precision precision : kPrecisions) {
    Config config = ConfigOf(precision);
    config.model.layers = 2;
    config.model.bidirectional = true;
    config.model.dropout = 0.3;
    const auto train = [&](const char* byte) {
      const cuda::FilledMemory filled(byte);
      return TrainOn("cuda", config);
    };
    const Trained zeros = train("0");
    const Trained ones = train("255");
    EXPECT_EQ(ones.losses, zeros.losses) << Name(precision);
    EXPECT_TRUE(ones.parameters == zeros.parameters) << Name(precision);
  }
}

// Row 40: weights are updated in fp32 whatever multiplies, so that they have bits that 16 have not.
TEST(CudaSteps, KeepWeightsInFloat32) {
  SKIP_WITHOUT_GPU();
  for (const Precision precision : {Precision::kBFloat16, Precision::kFloat16}) {
    size_t finer = 0, all = 0;
    for (const std::vector<float>& values : TrainOn("cuda", ConfigOf(precision)).parameters) {
      all += values.size();
      finer += static_cast<size_t>(std::count_if(values.begin(), values.end(), [](float v) {
        return (std::bit_cast<uint32_t>(v) & 0x1FFFu) != 0;  // behind fp16's fraction
      }));
    }
    EXPECT_GT(finer, all / 2) << Name(precision);
  }
}

// FNV-1a over the bytes of all numbers.
uint64_t Fingerprint(const Trained& trained) {
  uint64_t hash = 0xCBF29CE484222325u;
  const auto add = [&](const auto& values) {
    for (const auto value : values) {
      for (const auto byte : std::bit_cast<std::array<unsigned char, sizeof(value)>>(value)) {
        hash = (hash ^ byte) * 0x100000001B3u;
      }
    }
  };
  add(trained.losses);
  for (const auto& values : trained.parameters) add(values);
  for (const auto& array : trained.arrays) add(array.values);
  return hash;
}

// Three layers in both directions with dropout, in fp32 and bf16.
std::string FingerprintsOfTraining() {
  std::string text;
  for (const Precision precision : {Precision::kFloat32, Precision::kBFloat16}) {
    Config config = ConfigOf(precision);
    config.model.layers = 3;
    config.model.bidirectional = true;
    config.model.dropout = 0.5;
    text +=
        fmt::format("fingerprint {} {:x}\n", Name(precision), Fingerprint(TrainOn("cuda", config)));
  }
  return text;
}

// Run by the test below in other processes.
TEST(CudaSteps, DISABLED_PrintFingerprints) {
  SKIP_WITHOUT_GPU();
  std::fputs(FingerprintsOfTraining().c_str(), stdout);
}

std::string FingerprintsOfAnotherProcess() {
  char path[4096] = {};
  if (readlink("/proc/self/exe", path, sizeof(path) - 1) <= 0) return "the program has no path";
  const std::string command = fmt::format(
      "'{}' --gtest_also_run_disabled_tests --gtest_filter=CudaSteps.DISABLED_PrintFingerprints",
      path);
  FILE* const pipe = popen(command.c_str(), "r");
  if (!pipe) return "no process";
  std::string text;
  char line[256];
  while (std::fgets(line, sizeof(line), pipe)) {
    if (std::string_view(line).starts_with("fingerprint ")) text += line;
  }
  pclose(pipe);
  return text;
}

// Row 50.
TEST(CudaSteps, HaveTheSameBitsInEveryProcess) {
  SKIP_WITHOUT_GPU();
  const std::string here = FingerprintsOfTraining();
  for (int process = 0; process < 2; ++process) EXPECT_EQ(FingerprintsOfAnotherProcess(), here);
}

}  // namespace
}  // namespace turbolstm
