#include "nn/recurrent.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "graph/analysis.h"
#include "graph/interpreter.h"
#include "graph/passes/lower_transforms.h"
#include "nn/layers.h"
#include "testing/gradient_check.h"
#include "testing/random_bindings.h"

namespace turbolstm {
namespace {

constexpr double kTolerance = 1e-12;
constexpr int64_t kI = 5;
constexpr int64_t kH = 5;

RecurrentOptions Options(int64_t layers) {
  RecurrentOptions options;
  options.size.input = kI;
  options.size.hidden = kH;
  options.layers = layers;
  return options;
}

// Recurrent layers on their own, with the output "y", "last" and the final states.
void Build(Model& model, const RecurrentOptions& options) {
  const Value x = model.builder().Input("x", Domain::kStep, {options.size.input});
  const RecurrentResult result = Recurrent(model, "rnn", x, options);
  model.graph().AddOutput("y", result.output.id());
  model.graph().AddOutput("last", result.last.id());
  AddFinalStates(model, result);
}

Bindings BindingsFor(const Model& model, uint64_t seed = 1, bool ragged = true) {
  RandomBindingsOptions options;
  options.steps = 6;
  options.batch = 3;
  options.ragged = ragged;
  return RandomBindings(model.graph(), seed, options);
}

void ExpectNear(const Array& got, const Array& wanted) {
  ASSERT_EQ(got.shape, wanted.shape);
  for (size_t i = 0; i < got.data.size(); ++i) {
    EXPECT_NEAR(got.data[i], wanted.data[i], kTolerance) << "at " << i;
  }
}

// One layer of a stack run alone on x [T, B, n], with the stack's parameters of that layer.
Array RunLayer(const RecurrentOptions& options, int64_t layer, const Array& x,
               const Bindings& stack) {
  Model model;
  RecurrentOptions one = options;
  one.layers = 1;
  one.residual = false;
  one.size.input = x.shape[2];
  if (!options.directions.empty()) {
    one.directions = {options.directions[static_cast<size_t>(layer)]};
  }
  Build(model, one);
  Bindings bindings = stack;
  bindings.values = {{"x", x}};
  for (const ParameterSpec& spec : model.parameters()) {
    std::string name = spec.name;
    name.replace(name.find("_l0"), 3, fmt::format("_l{}", layer));
    bindings.values[spec.name] = stack.values.at(name);
  }
  return Interpret(model.graph(), bindings).at("y");
}

TEST(Recurrent, StackFeedsLayerToLayer) {
  for (const bool bidirectional : {false, true}) {
    RecurrentOptions options = Options(3);
    options.bidirectional = bidirectional;
    Model model;
    Build(model, options);
    const Bindings bindings = BindingsFor(model);
    Array x = bindings.values.at("x");
    for (int64_t layer = 0; layer < 3; ++layer) x = RunLayer(options, layer, x, bindings);
    ExpectNear(Interpret(model.graph(), bindings).at("y"), x);
  }
}

TEST(Recurrent, ResidualLayersAddTheirInput) {
  for (const bool bidirectional : {false, true}) {
    RecurrentOptions options = Options(2);
    options.residual = true;
    options.bidirectional = bidirectional;
    Model model;
    Build(model, options);
    const Bindings bindings = BindingsFor(model);
    const Array first = RunLayer(options, 0, bindings.values.at("x"), bindings);
    Array second = RunLayer(options, 1, first, bindings);
    for (size_t i = 0; i < second.data.size(); ++i) second.data[i] += first.data[i];
    ExpectNear(Interpret(model.graph(), bindings).at("y"), second);
  }
}

TEST(Recurrent, EachLayerHasItsDirection) {
  RecurrentOptions options = Options(3);
  options.directions = {Direction::kReverse, Direction::kForward, Direction::kReverse};
  Model model;
  Build(model, options);
  std::vector<Direction> loops;
  for (const Region& region : Analyse(model.graph()).regions) {
    if (region.is_loop()) loops.push_back(region.direction);
  }
  EXPECT_EQ(loops, options.directions);
  const Bindings bindings = BindingsFor(model);
  Array x = bindings.values.at("x");
  for (int64_t layer = 0; layer < 3; ++layer) x = RunLayer(options, layer, x, bindings);
  ExpectNear(Interpret(model.graph(), bindings).at("y"), x);
}

// A reversed layer is a forward layer on each sequence turned round.
TEST(Recurrent, ReverseTurnsEachSequenceRound) {
  RecurrentOptions options = Options(1);
  Model forward;
  Build(forward, options);
  options.directions = {Direction::kReverse};
  Model reverse;
  Build(reverse, options);
  Bindings bindings = BindingsFor(forward);
  bindings.lengths = {6, 0, 4};
  for (double& v : bindings.values.at("x").data) v = std::isnan(v) ? 0.25 : v;
  const auto turned = [&](const Array& array) {
    Array result = array;
    const int64_t n = array.shape[2];
    for (int64_t b = 0; b < 3; ++b) {
      const int64_t length = bindings.lengths[static_cast<size_t>(b)];
      for (int64_t t = 0; t < length; ++t) {
        for (int64_t j = 0; j < n; ++j) {
          result.data[static_cast<size_t>((t * 3 + b) * n + j)] =
              array.data[static_cast<size_t>(((length - 1 - t) * 3 + b) * n + j)];
        }
      }
    }
    return result;
  };
  const std::map<std::string, Array> wanted = Interpret(forward.graph(), bindings);
  bindings.values["x"] = turned(bindings.values["x"]);
  const std::map<std::string, Array> got = Interpret(reverse.graph(), bindings);
  ExpectNear(turned(got.at("y")), wanted.at("y"));
  ExpectNear(got.at("rnn.c_n_l0"), wanted.at("rnn.c_n_l0"));
}

TEST(Recurrent, CarriedStatesContinueASequence) {
  for (const char* cell : {"lstm", "gru", "tau_gru", "slstm"}) {
    RecurrentOptions options = Options(2);
    options.cell = cell;
    options.initial = InitialState::kGiven;
    Model model;
    Build(model, options);
    Bindings whole = BindingsFor(model, 1, false);
    for (auto& [name, array] : whole.values) {
      if (name.find("_0_l") != std::string::npos) std::ranges::fill(array.data, 0.0);
    }
    const std::map<std::string, Array> wanted = Interpret(model.graph(), whole);

    Bindings part = whole;
    part.steps = 2;
    Array y{{6, 3, kH}, {}};
    std::map<std::string, Array> got;
    for (int64_t begin = 0; begin < 6; begin += 2) {
      const std::vector<double>& all = whole.values.at("x").data;
      part.values["x"] = {{2, 3, kI},
                          {all.begin() + begin * 3 * kI, all.begin() + (begin + 2) * 3 * kI}};
      got = Interpret(model.graph(), part);
      y.data.insert(y.data.end(), got.at("y").data.begin(), got.at("y").data.end());
      for (auto& [name, array] : got) {
        std::string input = name;
        if (const size_t at = input.find("_n_l"); at != std::string::npos) {
          part.values.at(input.replace(at, 3, "_0_")) = array;
        }
      }
    }
    ExpectNear(y, wanted.at("y"));
    for (const auto& [name, array] : wanted) {
      if (name != "y") ExpectNear(got.at(name), array);
    }
  }
}

TEST(Recurrent, LastIsTheOutputWhereEachWalkEnds) {
  for (const bool residual : {false, true}) {
    RecurrentOptions options = Options(2);
    options.bidirectional = true;
    options.residual = residual;
    Model model;
    Build(model, options);
    Bindings bindings = BindingsFor(model, 1, false);
    bindings.lengths = {6, 1, 0};
    for (double& v : bindings.values.at("x").data) v = std::isnan(v) ? 0.25 : v;
    const std::map<std::string, Array> got = Interpret(model.graph(), bindings);
    const auto y = [&](int64_t t, int64_t b, int64_t j) {
      return got.at("y").data[static_cast<size_t>((t * 3 + b) * 2 * kH + j)];
    };
    for (int64_t b = 0; b < 3; ++b) {
      const int64_t length = bindings.lengths[static_cast<size_t>(b)];
      for (int64_t j = 0; j < 2 * kH; ++j) {
        const double wanted = length == 0 ? 0.0 : y(j < kH ? length - 1 : 0, b, j);
        EXPECT_NEAR(got.at("last").data[static_cast<size_t>(b * 2 * kH + j)], wanted, kTolerance);
      }
    }
  }
}

TEST(Recurrent, LastOfADelayedStateIsItsNewestValue) {
  RecurrentOptions options = Options(1);
  options.cell = "tau_gru";
  options.size.delay = 3;
  Model model;
  Build(model, options);
  const Bindings bindings = BindingsFor(model, 1, false);
  const std::map<std::string, Array> got = Interpret(model.graph(), bindings);
  EXPECT_EQ(got.at("rnn.h_n_l0").shape, (std::vector<int64_t>{3, 3 * kH}));
  const std::vector<double>& y = got.at("y").data;
  ExpectNear(got.at("last"), {{3, kH}, {y.end() - 3 * kH, y.end()}});
}

TEST(Recurrent, LearnedInitialStatesAreParametersWithGradients) {
  RecurrentOptions options = Options(2);
  options.initial = InitialState::kLearned;
  options.bidirectional = true;
  Model model;
  Build(model, options);
  int states = 0;
  for (const ParameterSpec& spec : model.parameters()) {
    if (spec.name.find("_0_l") == std::string::npos) continue;
    ++states;
    EXPECT_EQ(spec.shape, (std::vector<int64_t>{kH}));
    EXPECT_EQ(DrawParameter(spec, 1), std::vector<float>(kH, 0.0f));
  }
  EXPECT_EQ(states, 8);
  EXPECT_EQ(CheckGradients(model.graph(), BindingsFor(model), 1), "");
}

TEST(Recurrent, GradientsOfEverythingTogether) {
  RecurrentOptions options = Options(2);
  options.cell = "lstm_projection";
  options.size.projection = 3;
  options.bidirectional = true;
  options.residual = true;
  options.dropout = 0.4;
  options.initial = InitialState::kGiven;
  Model model;
  Build(model, options);
  Bindings bindings = BindingsFor(model);
  bindings.training = true;
  EXPECT_EQ(CheckGradients(model.graph(), bindings, 2), "");
}

TEST(Recurrent, EmptySizesAreLegal) {
  RecurrentOptions options = Options(2);
  options.bidirectional = true;
  options.initial = InitialState::kGiven;
  Model model;
  Build(model, options);
  for (const auto& [steps, batch] : {std::pair{0, 3}, {4, 0}, {0, 0}}) {
    RandomBindingsOptions sizes;
    sizes.steps = steps;
    sizes.batch = batch;
    const Bindings bindings = RandomBindings(model.graph(), 1, sizes);
    const std::map<std::string, Array> got = Interpret(model.graph(), bindings);
    EXPECT_EQ(got.at("y").shape, (std::vector<int64_t>{steps, batch, 2 * kH}));
    ExpectNear(got.at("rnn.h_n_l1_reverse"), bindings.values.at("rnn.h_0_l1_reverse"));
  }
}

TEST(Recurrent, NamesWhatIsWrong) {
  const auto build = [](const RecurrentOptions& options) {
    Model model;
    Build(model, options);
  };
  RecurrentOptions options = Options(1);
  options.dropout = 0.5;
  EXPECT_THROW(build(options), Error);  // it would do nothing
  options = Options(0);
  EXPECT_THROW(build(options), Error);
  options = Options(2);
  options.directions = {Direction::kForward};
  EXPECT_THROW(build(options), Error);
  options.directions = {Direction::kForward, Direction::kReverse};
  EXPECT_NO_THROW(build(options));
  options.bidirectional = true;
  EXPECT_THROW(build(options), Error);
  options = Options(2);
  options.dropout = 1.5;
  EXPECT_THROW(build(options), Error);
  options = Options(2);
  options.cell = "lsmt";
  EXPECT_THROW(build(options), Error);
}

class RecurrentDropout : public testing::Test {
 protected:
  static std::map<std::string, Array> Run(double dropout, bool training, uint32_t step = 0) {
    RecurrentOptions options = Options(2);
    options.dropout = dropout;
    Model model;
    Build(model, options);
    Bindings bindings = BindingsFor(model, 1, false);
    bindings.training = training;
    bindings.training_step = step;
    return Interpret(model.graph(), bindings);
  }
};

TEST_F(RecurrentDropout, ActsInTrainingOnly) {
  for (const double p : {0.5, 1.0}) ExpectNear(Run(p, false).at("y"), Run(0, false).at("y"));
  EXPECT_NE(Run(0.5, true).at("y"), Run(0, true).at("y"));
}

TEST_F(RecurrentDropout, DiffersFromStepToStepAndRepeats) {
  EXPECT_EQ(Run(0.5, true, 3), Run(0.5, true, 3));
  EXPECT_NE(Run(0.5, true, 3).at("y"), Run(0.5, true, 4).at("y"));
}

TEST_F(RecurrentDropout, LeavesFirstLayerAndLastOutputAlone) {
  const std::map<std::string, Array> dropped = Run(0.5, true);
  EXPECT_EQ(dropped.at("rnn.h_n_l0"), Run(0, true).at("rnn.h_n_l0"));
  for (const double y : dropped.at("y").data) EXPECT_NE(y, 0.0);
}

TEST_F(RecurrentDropout, ProbabilityOneShowsZerosToTheNextLayer) {
  RecurrentOptions options = Options(2);
  Model model;
  Build(model, options);
  const Bindings bindings = BindingsFor(model, 1, false);
  const Array zeros{{6, 3, kH}, std::vector<double>(6 * 3 * kH, 0.0)};
  ExpectNear(Run(1, true).at("y"), RunLayer(options, 1, zeros, bindings));
}

// With zoneout and variational dropout, ready to be interpreted.
struct Regularised {
  explicit Regularised(const RecurrentOptions& options) {
    Build(model, options);
    LowerTransforms(&model.graph());
    bindings = BindingsFor(model, 1, false);
    bindings.training = true;
  }
  std::map<std::string, Array> Run() const { return Interpret(model.graph(), bindings); }

  Model model;
  Bindings bindings;
};

TEST(Zoneout, OutputsKeepTheirElementsWithItsProbability) {
  RecurrentOptions options = Options(1);
  options.zoneout = 0.4;
  Regularised r(options);
  r.bindings.steps = 300;
  r.bindings.values["x"] = {{300, 3, kI}, {}};
  for (int i = 0; i < 300 * 3 * kI; ++i) r.bindings.values["x"].data.push_back(std::sin(i));
  const std::map<std::string, Array> got = r.Run();
  const std::vector<double>& y = got.at("y").data;
  int64_t kept = 0;
  for (size_t i = 3 * kH; i < y.size(); ++i) kept += y[i] == y[i - 3 * kH];
  EXPECT_NEAR(static_cast<double>(kept) / static_cast<double>(y.size()), 0.4, 0.03);
  EXPECT_EQ(got.at("last").data, std::vector<double>(y.end() - 3 * kH, y.end()));
  EXPECT_EQ(got.at("rnn.h_n_l0").data, got.at("last").data);
}

TEST(Zoneout, ProbabilityOneNeverLeavesTheInitialState) {
  RecurrentOptions options = Options(1);
  options.zoneout = 1;
  options.initial = InitialState::kGiven;
  const Regularised r(options);
  const std::map<std::string, Array> got = r.Run();
  ExpectNear(got.at("rnn.h_n_l0"), r.bindings.values.at("rnn.h_0_l0"));
  ExpectNear(got.at("rnn.c_n_l0"), r.bindings.values.at("rnn.c_0_l0"));
}

TEST(RecurrentVariationalDropout, ProbabilityOneCutsTheProducts) {
  RecurrentOptions options = Options(1);
  options.initial = InitialState::kGiven;
  options.recurrent_dropout = 1;
  const Regularised dropped(options);
  options.recurrent_dropout = 0;
  Regularised cut(options);
  std::ranges::fill(cut.bindings.values.at("rnn.weight_hh_l0").data, 0.0);
  ExpectNear(dropped.Run().at("y"), cut.Run().at("y"));
}

TEST(RecurrentVariationalDropout, ActsInTrainingOnly) {
  RecurrentOptions options = Options(2);
  options.recurrent_dropout = 0.5;
  Regularised dropped(options);
  options.recurrent_dropout = 0;
  Regularised plain(options);
  EXPECT_NE(dropped.Run().at("y"), plain.Run().at("y"));
  dropped.bindings.training = false;
  ExpectNear(dropped.Run().at("y"), plain.Run().at("y"));
}

TEST(RecurrentRegularisation, HasGradientsForEveryCell) {
  for (const Cell& cell : AllCells()) {
    RecurrentOptions options = Options(1);
    options.cell = cell.name;
    options.size.projection = cell.projects ? 3 : 0;
    options.bidirectional = true;
    options.zoneout = 0.3;
    options.recurrent_dropout = 0.3;
    const Regularised r(options);
    EXPECT_EQ(CheckGradients(r.model.graph(), r.bindings, 1), "") << cell.name;
  }
}

}  // namespace
}  // namespace turbolstm
