#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "base/error.h"
#include "graph/interpreter.h"
#include "train/host_training_step.h"
#include "train/model_factory.h"
#include "train/toy_task.h"
#include "train/trainer.h"

namespace turbolstm {
namespace {

// fp32 against float64: relative to the largest element of a gradient.
constexpr double kTolerance = 2e-5;

class Fixture {
 public:
  explicit Fixture(const Config& config)
      : config_(config),
        task_(MakeToyTask(20, 0)),
        model_(MakeClassifier(config.model, task_.vocabulary.size(), 2)),
        parameters_(model_->parameters(), 3),
        step_(*model_, &parameters_, config, MakePool(config.train)),
        batch_(MakeBatch(task_.train, std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6})) {}

  Bindings InterpreterBindings(int64_t step) const {
    Bindings bindings;
    bindings.steps = batch_.T;
    bindings.batch = batch_.B;
    bindings.lengths.assign(batch_.lengths.begin(), batch_.lengths.end());
    bindings.indices["tokens"] = {{batch_.T, batch_.B}, batch_.tokens};
    bindings.indices["label"] = {{batch_.B}, batch_.labels};
    for (size_t i = 0; i < parameters_.specs().size(); ++i) {
      const auto values = parameters_.values(i);
      bindings.values[parameters_.specs()[i].name] = {parameters_.specs()[i].shape,
                                                      {values.begin(), values.end()}};
    }
    bindings.training = true;
    bindings.seed = static_cast<uint64_t>(config_.train.seed);
    bindings.training_step = static_cast<uint32_t>(step);
    return bindings;
  }

  Config config_;
  TextTask task_;
  std::unique_ptr<Model> model_;
  Parameters parameters_;
  HostTrainingStep step_;
  Batch batch_;
};

void ExpectGradientsOfTheInterpreter(const Config& config) {
  Fixture f(config);
  const int64_t step = 5;
  const double loss = f.step_.ComputeGradients(f.batch_, step);
  const auto wanted = Interpret(WithLossGradients(*f.model_), f.InterpreterBindings(step));
  EXPECT_NEAR(loss, wanted.at("loss").data[0], kTolerance);
  for (size_t i = 0; i < f.parameters_.specs().size(); ++i) {
    const std::string& name = f.parameters_.specs()[i].name;
    const std::vector<double>& gradient = wanted.at(GradientName(name)).data;
    double largest = 0;
    for (const double g : gradient) largest = std::max(largest, std::abs(g));
    ASSERT_GT(largest, 0) << name;
    ASSERT_EQ(f.step_.gradient(i).size(), gradient.size());
    for (size_t j = 0; j < gradient.size(); ++j) {
      ASSERT_NEAR(f.step_.gradient(i)[j], gradient[j], kTolerance * largest) << name << " " << j;
    }
  }
}

TEST(TrainingStep, GradientsAreTheInterpreters) {
  ExpectGradientsOfTheInterpreter(ToyConfig());
}

TEST(TrainingStep, GradientsAreTheInterpretersWhereActivationsAreRecomputed) {
  Config config = ToyConfig();
  config.model.layers = 2;
  config.model.dropout = 0.4;
  config.train.recompute = true;
  ExpectGradientsOfTheInterpreter(config);
}

TEST(TrainingStep, GradientsAreTheInterpretersWithDropoutLayersAndDirections) {
  Config config = ToyConfig();
  config.model.dropout = 0.4;
  config.model.layers = 2;
  config.model.bidirectional = true;
  config.model.pooling = "max";
  config.model.cell = "gru";
  ExpectGradientsOfTheInterpreter(config);
}

TEST(TrainingStep, ClippingBoundsTheUpdateOfPlainDescent) {
  Config config = ToyConfig();
  config.train.optimizer = "sgd";
  config.train.learning_rate = 1;
  config.train.clip_norm = 1e-3;
  Fixture f(config);
  std::vector<std::vector<float>> before;
  for (size_t i = 0; i < f.parameters_.specs().size(); ++i) {
    before.emplace_back(f.parameters_.values(i).begin(), f.parameters_.values(i).end());
  }
  f.step_.ComputeGradients(f.batch_, 0);
  f.step_.Update();
  double squares = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    for (size_t j = 0; j < before[i].size(); ++j) {
      const double change = double{f.parameters_.values(i)[j]} - before[i][j];
      squares += change * change;
    }
  }
  EXPECT_NEAR(std::sqrt(squares), 1e-3, 1e-5);  // weights are stored with seven digits
}

TEST(TrainingStep, EmptyTextsAreLegal) {
  Fixture f(ToyConfig());
  EncodedTexts texts;
  texts.offsets = {0, 0, 0};
  texts.labels = {0, 1};
  EXPECT_TRUE(
      std::isfinite(f.step_.ComputeGradients(MakeBatch(texts, std::vector<int64_t>{0, 1}), 0)));
}

TEST(TrainingStep, LossThatIsNoNumberIsNamed) {
  Fixture f(ToyConfig());
  f.parameters_.values(0)[0] = NAN;
  for (float& value : f.parameters_.values(f.parameters_.specs().size() - 1)) value = NAN;
  try {
    f.step_.ComputeGradients(f.batch_, 12);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("step 12"), std::string::npos) << error.what();
  }
}

Config WithoutClipping() {
  Config config = ToyConfig();
  config.train.clip_norm = 0;
  config.train.threads = 2;
  return config;
}

std::vector<std::vector<float>> ValuesOf(const Parameters& parameters) {
  std::vector<std::vector<float>> all;
  for (size_t i = 0; i < parameters.specs().size(); ++i) {
    all.emplace_back(parameters.values(i).begin(), parameters.values(i).end());
  }
  return all;
}

// Updates that are tasks of the run change what updates behind it change, bit for bit.
TEST(TrainingStep, UpdatesWithinTheRunAreThoseBehindIt) {
  Fixture within(WithoutClipping()), behind(WithoutClipping());
  for (int64_t step = 0; step < 3; ++step) {
    within.step_.Train(within.batch_, step);
    behind.step_.ComputeGradients(behind.batch_, step);
    behind.step_.Update();
    EXPECT_EQ(ValuesOf(within.parameters_), ValuesOf(behind.parameters_)) << "step " << step;
  }
  EXPECT_EQ(within.step_.optimizer_steps(), 3);
}

TEST(TrainingStep, LossThatIsNoNumberUpdatesNothing) {
  Fixture f(WithoutClipping());
  f.step_.Train(f.batch_, 0);
  for (float& value : f.parameters_.values(f.parameters_.specs().size() - 1)) value = INFINITY;
  const auto before = ValuesOf(f.parameters_);
  EXPECT_THROW(f.step_.Train(f.batch_, 1), Error);
  EXPECT_EQ(ValuesOf(f.parameters_), before);
  EXPECT_EQ(f.step_.optimizer_steps(), 1);
}

TEST(ModelFactory, UnknownCellListsTheCells) {
  Config config = ToyConfig();
  config.model.cell = "lsmt";
  try {
    MakeClassifier(config.model, 10, 2);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("'lsmt'"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("gru"), std::string::npos);
  }
}

TEST(ModelFactory, ProjectionMustFitTheCell) {
  Config config = ToyConfig();
  config.model.projection = 4;
  EXPECT_THROW(MakeClassifier(config.model, 10, 2), Error);
  config.model.cell = "lstm_projection";
  EXPECT_NO_THROW(MakeClassifier(config.model, 10, 2));
  config.model.projection = 0;
  EXPECT_THROW(MakeClassifier(config.model, 10, 2), Error);
}

TEST(ModelFactory, EveryCellMakesAModelWithGradients) {
  for (const Cell& cell : AllCells()) {
    Config config = ToyConfig();
    config.model.cell = cell.name;
    config.model.projection = cell.projects ? 4 : 0;
    const auto model = MakeClassifier(config.model, 10, 2);
    EXPECT_EQ(WithLossGradients(*model).outputs().size(), 2 + model->parameters().size())
        << cell.name;
  }
}

}  // namespace
}  // namespace turbolstm
