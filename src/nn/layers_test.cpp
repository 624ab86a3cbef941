#include "nn/layers.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "graph/interpreter.h"
#include "nn/losses.h"
#include "testing/gradient_check.h"
#include "testing/random_bindings.h"

namespace turbolstm {
namespace {

constexpr double kTolerance = 1e-12;
const double kNaN = std::nan("");

class LayerTest : public testing::Test {
 protected:
  LayerTest() {
    bindings_.steps = 3;
    bindings_.batch = 2;
    bindings_.lengths = {2, 0};
  }

  Value Step(int64_t n, std::vector<double> data) {
    bindings_.values["x"] = {{3, 2, n}, std::move(data)};
    return model_.builder().Input("x", Domain::kStep, {n});
  }
  std::vector<double> Run(const Value& value) {
    return InterpretNodes(model_.graph(), bindings_, {value.id()}).front().data;
  }

  Model model_;
  Bindings bindings_;
};

TEST_F(LayerTest, MeanOverTimeCountsValidSteps) {
  const Value x = Step(2, {1, -2, kNaN, kNaN, 3, 4, kNaN, kNaN, kNaN, kNaN, kNaN, kNaN});
  EXPECT_EQ(Run(MeanOverTime(x)), (std::vector<double>{2, 1, 0, 0}));
}

TEST_F(LayerTest, MaxOverTimeLooksAtValidSteps) {
  const Value x = Step(2, {-1, -2, kNaN, kNaN, -3, 4, kNaN, kNaN, kNaN, kNaN, kNaN, kNaN});
  EXPECT_EQ(Run(MaxOverTime(x)), (std::vector<double>{-1, 4, 0, 0}));
}

TEST_F(LayerTest, PoolingHasGradients) {
  const Value x = model_.builder().Input("x", Domain::kStep, {4});
  model_.graph().AddOutput("mean", MeanOverTime(x).id());
  model_.graph().AddOutput("max", MaxOverTime(x).id());
  for (uint64_t seed = 0; seed < 5; ++seed) {
    const Bindings bindings = RandomBindings(model_.graph(), seed, {});
    EXPECT_EQ(CheckGradients(model_.graph(), bindings, seed), "");
  }
}

TEST_F(LayerTest, EmbeddingLooksUpRows) {
  const Value index = model_.builder().IndexInput("tokens", Domain::kBatch);
  bindings_.indices["tokens"] = {{2}, {2, 0}};
  bindings_.values["e.weight"] = {{3, 2}, {1, 2, 3, 4, 5, 6}};
  EXPECT_EQ(Run(Embedding(model_, "e", index, 3, 2)), (std::vector<double>{5, 6, 1, 2}));
}

TEST_F(LayerTest, LinearMultipliesAndAdds) {
  const Value x = model_.builder().Input("x", Domain::kBatch, {2});
  bindings_.values["x"] = {{2, 2}, {1, 2, 3, 4}};
  bindings_.values["l.weight"] = {{3, 2}, {1, 0, 0, 1, 1, 1}};
  bindings_.values["l.bias"] = {{3}, {10, 20, 30}};
  EXPECT_EQ(Run(Linear(model_, "l", x, 3)), (std::vector<double>{11, 22, 33, 13, 24, 37}));
}

TEST_F(LayerTest, DropoutKeepsTheMean) {
  bindings_.steps = 50;
  bindings_.batch = 20;
  bindings_.lengths.clear();
  bindings_.training = true;
  bindings_.values["x"] = {{50, 20, 10}, std::vector<double>(10000, 1.0)};
  const Value x = model_.builder().Input("x", Domain::kStep, {10});
  double sum = 0;
  for (const double y : Run(Dropout(x, 0.25))) {
    EXPECT_TRUE(y == 0 || std::abs(y - 1 / 0.75) < kTolerance) << y;
    sum += y;
  }
  EXPECT_NEAR(sum / 10000, 1.0, 0.03);  // five standard deviations
}

TEST_F(LayerTest, DropoutOfZeroIsNothing) {
  const Value x = model_.builder().Input("x", Domain::kStep, {10});
  EXPECT_EQ(Dropout(x, 0).id(), x.id());
  EXPECT_THROW(Dropout(x, -0.1), Error);
}

TEST_F(LayerTest, DropoutIsNothingOutsideTrainingForEveryProbability) {
  bindings_.training = false;
  bindings_.steps = 2;
  bindings_.batch = 1;
  bindings_.lengths.clear();
  const std::vector<double> values = {1, -2, 3, 4};
  bindings_.values["x"] = {{2, 1, 2}, values};
  const Value x = model_.builder().Input("x", Domain::kStep, {2});
  for (const double p : {0.3, 0.5, 1.0}) EXPECT_EQ(Run(Dropout(x, p)), values) << p;
}

TEST_F(LayerTest, CrossEntropyIsTheMeanOverRows) {
  const Value logits = model_.builder().Input("logits", Domain::kBatch, {2});
  const Value label = model_.builder().IndexInput("label", Domain::kBatch);
  bindings_.values["logits"] = {{2, 2}, {0, 0, 1, 3}};
  bindings_.indices["label"] = {{2}, {1, 0}};
  const double wanted = (std::log(2.0) + std::log(1 + std::exp(2.0))) / 2;
  EXPECT_NEAR(Run(CrossEntropyLoss(logits, label))[0], wanted, kTolerance);
}

TEST_F(LayerTest, LossesOfNoRowsAreZero) {
  const Value logits = model_.builder().Input("logits", Domain::kBatch, {2});
  const Value label = model_.builder().IndexInput("label", Domain::kBatch);
  bindings_ = {};
  bindings_.values["logits"] = {{0, 2}, {}};
  bindings_.indices["label"] = {{0}, {}};
  EXPECT_EQ(Run(CrossEntropyLoss(logits, label))[0], 0.0);
  EXPECT_EQ(Run(MeanSquaredError(logits, logits))[0], 0.0);
}

TEST_F(LayerTest, MeanSquaredErrorCountsValidElements) {
  const Value x = Step(2, {1, 2, kNaN, kNaN, 3, 4, kNaN, kNaN, kNaN, kNaN, kNaN, kNaN});
  EXPECT_NEAR(Run(MeanSquaredError(x, model_.builder().Constant(1.0)))[0], (0 + 1 + 4 + 9) / 4.0,
              kTolerance);
}

}  // namespace
}  // namespace turbolstm
