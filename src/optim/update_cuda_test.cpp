#include "optim/update_cuda.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "backend/cuda/check_cuda.h"
#include "backend/cuda/testing/gpu.h"
#include "base/philox.h"
#include "optim/gradient_clip.h"

namespace turbolstm::cuda {
namespace {

// Against the CPU's update, relative to the larger of 1 and the value: roundings of a few steps.
constexpr double kTolerance = 2e-6;

using Arrays = std::vector<std::vector<float>>;

Arrays Draw(const std::vector<int64_t>& sizes, uint32_t site, float scale = 1) {
  Arrays arrays;
  for (const int64_t size : sizes) {
    const RandomSite random{.seed = 5, .step = site, .site = static_cast<uint32_t>(arrays.size())};
    std::vector<float>& values = arrays.emplace_back();
    for (int64_t i = 0; i < size; ++i) {
      values.push_back(scale * (random.Uniform(static_cast<uint64_t>(i)) - 0.5f));
    }
  }
  return arrays;
}

void Upload(const std::vector<float>& values, float* to, const Stream& stream) {
  if (values.empty()) return;
  TL_CUDA_CHECK(cudaMemcpyAsync(to, values.data(), values.size() * sizeof(float),
                                cudaMemcpyHostToDevice, stream.get()));
  stream.Synchronize();
}

std::vector<float> Download(const float* from, size_t count, const Stream& stream) {
  std::vector<float> values(count);
  if (count == 0) return values;
  TL_CUDA_CHECK(cudaMemcpyAsync(values.data(), from, count * sizeof(float), cudaMemcpyDeviceToHost,
                                stream.get()));
  stream.Synchronize();
  return values;
}

// Weights, gradients, a loss and a loss scale on a device.
class OnDevice {
 public:
  explicit OnDevice(const Arrays& weights)
      : loss_(sizeof(float), "loss"), scale_(sizeof(float), "scale") {
    for (const std::vector<float>& values : weights) {
      weights_.emplace_back(values.size() * sizeof(float), "weights");
      gradients_.emplace_back(values.size() * sizeof(float), "gradients");
      Upload(values, Floats(weights_.back()), stream_);
      sizes_.push_back(values.size());
    }
    Upload({kFirstLossScale}, loss_scale(), stream_);
  }

  void Make(std::string_view rule, const UpdateOptions& options) {
    std::vector<DeviceParameter> parameters;
    for (size_t i = 0; i < weights_.size(); ++i) {
      parameters.push_back(
          {std::to_string(i), Floats(weights_[i]), static_cast<int64_t>(sizes_[i])});
    }
    optimizer_ = std::make_unique<DeviceOptimizer>(rule, parameters, options);
  }

  UpdateReport Step(const Arrays& gradients, float loss = 1) {
    std::vector<const float*> list;
    for (size_t i = 0; i < gradients.size(); ++i) {
      Upload(gradients[i], Floats(gradients_[i]), stream_);
      list.push_back(gradients[i].empty() ? nullptr : Floats(gradients_[i]));
    }
    Upload({loss}, Floats(loss_), stream_);
    optimizer_->Enqueue(list, Floats(loss_), stream_.get());
    stream_.Synchronize();
    return optimizer_->report(asked_++);
  }

  Arrays Weights() const {
    Arrays all;
    for (size_t i = 0; i < sizes_.size(); ++i) {
      all.push_back(Download(Floats(weights_[i]), sizes_[i], stream_));
    }
    return all;
  }
  float* loss_scale() const { return Floats(scale_); }
  float LossScale() const { return Download(loss_scale(), 1, stream_)[0]; }
  DeviceOptimizer& optimizer() { return *optimizer_; }
  const Stream& stream() const { return stream_; }

 private:
  static float* Floats(const DeviceBuffer& buffer) {
    return reinterpret_cast<float*>(buffer.data());
  }

  Stream stream_;
  std::vector<size_t> sizes_;
  std::vector<DeviceBuffer> weights_;
  std::vector<DeviceBuffer> gradients_;
  DeviceBuffer loss_;
  DeviceBuffer scale_;
  std::unique_ptr<DeviceOptimizer> optimizer_;
  int64_t asked_ = 0;
};

void ExpectNear(const std::vector<float>& got, const std::vector<float>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    const double scale = std::max(1.0, std::abs(double{wanted[i]}));
    ASSERT_NEAR(got[i], wanted[i], kTolerance * scale) << "at " << i;
  }
}

struct RuleCase {
  const char* rule;
  OptimizerOptions options;
  double clip_norm = 0;
};

class RuleOnDevice : public ::testing::TestWithParam<RuleCase> {};

TEST_P(RuleOnDevice, GivesTheWeightsAndStateOfTheCpu) {
  SKIP_WITHOUT_GPU();
  const auto& [rule, options, clip_norm] = GetParam();
  const std::vector<int64_t> sizes = {1, 0, 2, 17, 4096, 4097, 100003};
  Arrays weights = Draw(sizes, 0);
  Arrays gradients = weights;
  OnDevice device(weights);
  OnDevice again(weights);
  for (OnDevice* each : {&device, &again}) each->Make(rule, {options, clip_norm, nullptr});
  std::vector<OptimizedParameter> list;
  std::vector<std::span<float>> spans;
  for (size_t i = 0; i < sizes.size(); ++i) {
    list.push_back({std::to_string(i), weights[i], gradients[i]});
    spans.emplace_back(gradients[i]);
  }
  const auto host = MakeOptimizer(rule, std::move(list), options);
  for (uint32_t step = 0; step < 5; ++step) {
    const Arrays drawn = Draw(sizes, 1 + step);
    const UpdateReport report = device.Step(drawn, 0.5f);
    again.Step(drawn, 0.5f);
    for (size_t i = 0; i < sizes.size(); ++i) std::ranges::copy(drawn[i], gradients[i].begin());
    if (clip_norm > 0) {
      const double norm = ClipGlobalNorm(spans, clip_norm);
      EXPECT_NEAR(report.norm / norm, 1, kTolerance);
    }
    host->Step();
    EXPECT_EQ(report.updated, 1);
    EXPECT_EQ(report.loss, 0.5f);
  }
  const Arrays got = device.Weights();
  for (size_t i = 0; i < sizes.size(); ++i) ExpectNear(got[i], weights[i]);
  EXPECT_EQ(again.Weights(), got) << "the same steps twice";
  EXPECT_EQ(device.optimizer().ReadSteps(device.stream()), 5);
  const auto slots = device.optimizer().ReadSlots(device.stream());
  const auto wanted = host->State();
  ASSERT_EQ(slots.size(), wanted.size());
  for (size_t i = 0; i < slots.size(); ++i) {
    EXPECT_EQ(slots[i].name, wanted[i].name);
    ExpectNear(slots[i].values, {wanted[i].values.begin(), wanted[i].values.end()});
  }
}

INSTANTIATE_TEST_SUITE_P(
    Rules, RuleOnDevice,
    ::testing::Values(
        RuleCase{"sgd", {.learning_rate = 0.1}},
        RuleCase{"sgd", {.learning_rate = 0.1, .weight_decay = 0.02}, 1.0},
        RuleCase{"sgd", {.learning_rate = 0.1, .weight_decay = 0.02, .momentum = 0.9}},
        RuleCase{"sgd", {.learning_rate = 0.1, .momentum = 0.9, .nesterov = true}, 1e6},
        RuleCase{"adam", {.learning_rate = 0.01}, 0.5},
        RuleCase{"adam", {.weight_decay = 0.1, .beta1 = 0.8, .beta2 = 0.99, .epsilon = 1e-4}},
        RuleCase{"adamw", {.learning_rate = 0.01, .weight_decay = 0.1}, 2.0}));

TEST(UpdateOnDevice, ParametersWithoutGradientsAndManyOfThem) {
  SKIP_WITHOUT_GPU();
  const std::vector<int64_t> sizes(300, 3);
  const Arrays weights = Draw(sizes, 0);
  Arrays gradients = Draw(sizes, 1);
  gradients[7].clear();
  OnDevice device(weights);
  device.Make("sgd", {{.learning_rate = 0.5}});
  device.Step(gradients);
  const Arrays got = device.Weights();
  EXPECT_EQ(got[7], weights[7]);
  for (const size_t i : {0, 255, 256, 299}) {
    EXPECT_NEAR(got[i][1], weights[i][1] - 0.5f * gradients[i][1], 1e-6) << i;
  }
}

TEST(UpdateOnDevice, ScaledGradientsAreUnscaledAndOverflowIsSkipped) {
  SKIP_WITHOUT_GPU();
  const std::vector<int64_t> sizes = {5000, 3};
  const Arrays weights = Draw(sizes, 0);
  OnDevice plain(weights);
  OnDevice scaled(weights);
  plain.Make("adam", {{.learning_rate = 0.01}, 0.5, nullptr});
  scaled.Make("adam", {{.learning_rate = 0.01}, 0.5, scaled.loss_scale()});
  const auto step_both = [&](uint32_t site) {
    plain.Step(Draw(sizes, site));
    EXPECT_EQ(scaled.Step(Draw(sizes, site, scaled.LossScale())).updated, 1);
    EXPECT_EQ(scaled.Weights(), plain.Weights());  // scales are powers of two
  };
  step_both(1);
  Arrays broken = Draw(sizes, 2);
  broken[1][2] = INFINITY;
  const UpdateReport report = scaled.Step(broken);
  EXPECT_EQ(report.updated, 0);
  EXPECT_EQ(report.loss_scale, kFirstLossScale);
  EXPECT_EQ(scaled.LossScale(), kFirstLossScale / 2);
  EXPECT_EQ(scaled.Weights(), plain.Weights());
  step_both(3);  // also compares the bias corrections: the skipped step does not count
  EXPECT_EQ(scaled.optimizer().ReadSteps(scaled.stream()), 2);
  for (int i = 1; i < kStepsUntilLossScaleGrows; ++i) scaled.Step(Draw(sizes, 4));
  EXPECT_EQ(scaled.LossScale(), kFirstLossScale);
}

TEST(UpdateOnDevice, ALossThatIsNotFiniteHalts) {
  SKIP_WITHOUT_GPU();
  const Arrays weights = Draw({10}, 0);
  OnDevice device(weights);
  device.Make("sgd", {{.learning_rate = 0.5}});
  EXPECT_EQ(device.Step(Draw({10}, 1), NAN).updated, 0);
  EXPECT_EQ(device.Step(Draw({10}, 1), 1).updated, 0);
  EXPECT_EQ(device.Weights(), weights);
}

TEST(UpdateOnDevice, LearningRateCanChange) {
  SKIP_WITHOUT_GPU();
  OnDevice device(Arrays{{1.0f}});
  device.Make("sgd", {{.learning_rate = 0.5}});
  device.Step({{1.0f}});
  device.optimizer().set_learning_rate(0.25, device.stream());
  device.Step({{1.0f}});
  EXPECT_EQ(device.Weights()[0][0], 0.25f);
}

}  // namespace
}  // namespace turbolstm::cuda
