#include "optim/optimizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <thread>

#include "base/error.h"
#include "base/philox.h"
#include "io/safetensors.h"
#include "optim/gradient_clip.h"

namespace turbolstm {
namespace {

// Relative to the larger of 1 and the value.
constexpr double kTolerance = 1e-6;
constexpr size_t kSteps = 5;

const SafetensorsFile& Golden() {
  static const SafetensorsFile file =
      ReadSafetensors(TL_GOLDEN_DIR "/pytorch_optimizer.safetensors");
  return file;
}

std::vector<float> GoldenValues(const std::string& name) {
  const NamedTensor& tensor = Golden().At(name);
  std::vector<float> values(tensor.bytes.size() / sizeof(float));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

void ExpectNear(std::span<const float> got, std::span<const float> wanted,
                const std::string& what) {
  ASSERT_EQ(got.size(), wanted.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) {
    const double scale = std::max(1.0, std::abs(double{wanted[i]}));
    EXPECT_NEAR(got[i], wanted[i], kTolerance * scale) << what << " at " << i;
  }
}

// Weights of the golden file with room for the gradient of one step.
struct Parameters {
  std::map<std::string, std::vector<float>> weights;
  std::map<std::string, std::vector<float>> gradients;

  Parameters() {
    for (const char* const name : {"weight", "bias"}) {
      weights[name] = GoldenValues(std::string("initial.") + name);
      gradients[name].resize(weights[name].size());
    }
  }
  void LoadGradients(size_t step) {
    for (auto& [name, gradient] : gradients) {
      const auto all = GoldenValues("gradient." + name);
      const size_t n = gradient.size();
      std::copy_n(all.begin() + static_cast<ptrdiff_t>(step * n), n, gradient.begin());
    }
  }
  std::vector<OptimizedParameter> List() {
    std::vector<OptimizedParameter> list;
    for (auto& [name, weight] : weights) list.push_back({name, weight, gradients[name]});
    return list;
  }
  std::vector<std::span<float>> Gradients() {
    std::vector<std::span<float>> list;
    for (auto& [name, gradient] : gradients) list.push_back(gradient);
    return list;
  }
};

struct RuleCase {
  const char* golden;
  const char* rule;
  OptimizerOptions options;
};

class PyTorchRule : public testing::TestWithParam<RuleCase> {};

TEST_P(PyTorchRule, GivesTheSameWeightsAndState) {
  const auto& [golden, rule, options] = GetParam();
  Parameters parameters;
  const auto optimizer = MakeOptimizer(rule, parameters.List(), options);
  for (size_t step = 0; step < kSteps; ++step) {
    parameters.LoadGradients(step);
    optimizer->Step();
    for (const auto& [name, weight] : parameters.weights) {
      const auto history = GoldenValues(fmt::format("{}.{}", golden, name));
      ExpectNear(weight, std::span(history).subspan(step * weight.size(), weight.size()),
                 fmt::format("{} after step {}", name, step));
    }
  }
  EXPECT_EQ(optimizer->steps(), static_cast<int64_t>(kSteps));
  for (const OptimizerState& state : optimizer->State()) {
    ExpectNear(state.values, GoldenValues(fmt::format("{}.{}", golden, state.name)), state.name);
  }
}

TEST_P(PyTorchRule, ContinuesFromASavedState) {
  const auto& [golden, rule, options] = GetParam();
  Parameters whole;
  const auto uninterrupted = MakeOptimizer(rule, whole.List(), options);
  Parameters resumed;
  const auto first = MakeOptimizer(rule, resumed.List(), options);
  const auto second = MakeOptimizer(rule, resumed.List(), options);
  for (size_t step = 0; step < kSteps; ++step) {
    whole.LoadGradients(step);
    resumed.LoadGradients(step);
    uninterrupted->Step();
    (step < 2 ? first : second)->Step();
    if (step != 1) continue;
    second->set_steps(first->steps());
    const auto saved = first->State();
    const auto loaded = second->State();
    for (size_t i = 0; i < saved.size(); ++i) {
      EXPECT_EQ(saved[i].name, loaded[i].name);
      std::copy(saved[i].values.begin(), saved[i].values.end(), loaded[i].values.begin());
    }
  }
  EXPECT_EQ(resumed.weights, whole.weights);
}

INSTANTIATE_TEST_SUITE_P(
    Rules, PyTorchRule,
    testing::Values(
        RuleCase{"sgd", "sgd", {.learning_rate = 0.1}},
        RuleCase{"sgd_decay", "sgd", {.learning_rate = 0.1, .weight_decay = 0.02}},
        RuleCase{
            "sgd_momentum", "sgd", {.learning_rate = 0.1, .weight_decay = 0.02, .momentum = 0.9}},
        RuleCase{"sgd_nesterov",
                 "sgd",
                 {.learning_rate = 0.1, .weight_decay = 0.02, .momentum = 0.9, .nesterov = true}},
        RuleCase{"adam", "adam", {.learning_rate = 0.01}},
        RuleCase{"adam_decay",
                 "adam",
                 {.learning_rate = 0.01,
                  .weight_decay = 0.1,
                  .beta1 = 0.8,
                  .beta2 = 0.99,
                  .epsilon = 1e-4}},
        RuleCase{"adamw", "adamw", {.learning_rate = 0.01, .weight_decay = 0.1}}),
    [](const auto& instance) { return instance.param.golden; });

TEST(ClipGlobalNorm, AgreesWithPyTorch) {
  for (size_t step = 0; step < kSteps; ++step) {
    Parameters parameters;
    parameters.LoadGradients(step);
    const double norm = ClipGlobalNorm(parameters.Gradients(), 1.0);
    EXPECT_NEAR(norm / GoldenValues(fmt::format("clip.norm.{}", step))[0], 1.0, kTolerance);
    for (const auto& [name, gradient] : parameters.gradients) {
      ExpectNear(gradient, GoldenValues(fmt::format("clip.{}.{}", name, step)), name);
    }
  }
}

TEST(ClipGlobalNorm, EdgesAreHandled) {
  EXPECT_EQ(ClipGlobalNorm({}, 1.0), 0.0);
  std::vector<float> gradient = {3, NAN};
  const std::vector<std::span<float>> list = {gradient, {}};
  EXPECT_TRUE(std::isnan(ClipGlobalNorm(list, 1.0)));
  EXPECT_EQ(gradient[0], 3.0f);
  EXPECT_THROW(ClipGlobalNorm(list, 0.0), Error);
  // Squares of such values overflow in fp32, and so would the sum.
  gradient = {3e30f, 4e30f};
  EXPECT_NEAR(ClipGlobalNorm(list, 1.0) / 5e30, 1.0, kTolerance);
  EXPECT_NEAR(gradient[1], 0.8f, kTolerance);
}

// Odd tasks first and on another thread: neither order nor thread may matter.
void ScrambledFor(int64_t count, const std::function<void(int64_t)>& body) {
  std::thread odd([&] {
    for (int64_t i = 1; i < count; i += 2) body(i);
  });
  for (int64_t i = (count - 1) / 2 * 2; i >= 0; i -= 2) body(i);
  odd.join();
}

TEST(Optimizer, ThreadsDoNotChangeABit) {
  const RandomSite random{.seed = 1};
  constexpr size_t kElements = 5 * kOptimizerChunk + 77;
  std::vector<float> gradient(kElements);
  for (size_t i = 0; i < kElements; ++i) gradient[i] = random.Uniform(i) - 0.5f;
  std::vector<float> serial(kElements, 1.0f);
  std::vector<float> scrambled = serial;
  const auto a = MakeOptimizer("adamw", {{"w", serial, gradient}}, {.weight_decay = 0.1});
  const auto b = MakeOptimizer("adamw", {{"w", scrambled, gradient}}, {.weight_decay = 0.1});
  for (int step = 0; step < 3; ++step) {
    a->Step();
    b->Step(ScrambledFor);
  }
  EXPECT_EQ(serial, scrambled);
  const std::vector<std::span<float>> list = {gradient};
  EXPECT_EQ(GlobalNorm(list), GlobalNorm(list, ScrambledFor));
}

TEST(Optimizer, LearningRateCanChange) {
  std::vector<float> weight = {1.0f};
  const std::vector<float> gradient = {1.0f};
  const auto optimizer = MakeOptimizer("sgd", {{"w", weight, gradient}}, {.learning_rate = 0.5});
  optimizer->Step();
  optimizer->set_learning_rate(0.25);
  optimizer->Step();
  EXPECT_EQ(weight[0], 0.25f);
}

TEST(Optimizer, RefusesBadInput) {
  std::vector<float> weight = {1, 2};
  const std::vector<float> one = {1};
  const std::vector<float> two = {1, 2};
  EXPECT_THROW(MakeOptimizer("lion", {}, {}), Error);
  EXPECT_THROW(MakeOptimizer("adam", {{"w", weight, one}}, {}), Error);
  EXPECT_THROW(MakeOptimizer("adam", {{"w", weight, two}, {"w", weight, two}}, {}), Error);
  EXPECT_THROW(MakeOptimizer("adam", {}, {.learning_rate = -1}), Error);
  EXPECT_THROW(MakeOptimizer("adam", {}, {.learning_rate = NAN}), Error);
  EXPECT_THROW(MakeOptimizer("adam", {}, {.beta1 = 1}), Error);
  EXPECT_THROW(MakeOptimizer("sgd", {}, {.nesterov = true}), Error);
  const auto optimizer = MakeOptimizer("adam", {}, {});
  EXPECT_THROW(optimizer->set_learning_rate(-1), Error);
  EXPECT_THROW(optimizer->set_steps(-1), Error);
  optimizer->Step();
  EXPECT_TRUE(optimizer->State().empty());
}

TEST(Optimizer, EmptyParametersAreLegal) {
  const auto optimizer = MakeOptimizer("adam", {{"w", {}, {}}}, {});
  optimizer->Step();
  EXPECT_EQ(optimizer->State().size(), 2u);
}

}  // namespace
}  // namespace turbolstm
