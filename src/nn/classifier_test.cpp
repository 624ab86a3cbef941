#include "nn/classifier.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "graph/autodiff.h"
#include "testing/gradient_check.h"
#include "testing/random_bindings.h"

namespace turbolstm {
namespace {

std::vector<std::string> NamesOf(const Model& model) {
  std::vector<std::string> names;
  for (const ParameterSpec& spec : model.parameters()) names.push_back(spec.name);
  return names;
}

TEST(Classifier, HasPyTorchNames) {
  ClassifierOptions options;
  options.vocabulary = 11;
  options.embedding = 5;
  options.classes = 2;
  options.recurrent.size.hidden = 7;
  options.recurrent.bidirectional = true;
  Model model;
  BuildClassifier(model, options);
  EXPECT_EQ(NamesOf(model), (std::vector<std::string>{
                                "embedding.weight", "lstm.weight_ih_l0", "lstm.bias_ih_l0",
                                "lstm.weight_hh_l0", "lstm.bias_hh_l0", "lstm.weight_ih_l0_reverse",
                                "lstm.bias_ih_l0_reverse", "lstm.weight_hh_l0_reverse",
                                "lstm.bias_hh_l0_reverse", "head.weight", "head.bias"}));
  EXPECT_EQ(model.parameters()[9].shape, (std::vector<int64_t>{2, 14}));
}

ClassifierOptions SmallOptions(Pooling pooling) {
  ClassifierOptions options;
  options.vocabulary = 7;
  options.embedding = 3;
  options.classes = 3;
  options.pooling = pooling;
  options.embedding_dropout = 0.2;
  options.dropout = 0.3;
  options.recurrent.cell = "gru";
  options.recurrent.size.hidden = 4;
  options.recurrent.layers = 2;
  options.recurrent.bidirectional = true;
  options.recurrent.dropout = 0.25;
  return options;
}

TEST(Classifier, GradientsEqualCentralDifferences) {
  for (const Pooling pooling : {Pooling::kLast, Pooling::kMean, Pooling::kMax}) {
    Model model;
    BuildClassifier(model, SmallOptions(pooling));
    for (uint64_t seed = 0; seed < 3; ++seed) {
      RandomBindingsOptions sizes;
      sizes.training = true;
      const Bindings bindings = RandomBindings(model.graph(), seed, sizes);
      EXPECT_EQ(CheckGradients(model.graph(), bindings, seed), "");
    }
  }
}

// Plain gradient descent on one batch must drive the loss to nothing.
TEST(Classifier, LearnsABatchByHeart) {
  ClassifierOptions options = SmallOptions(Pooling::kMax);
  options.embedding_dropout = options.dropout = options.recurrent.dropout = 0;
  Model model;
  options.embedding_deviation = 1;
  BuildClassifier(model, options);
  const NodeId loss = model.graph().FindOutput("loss");
  std::vector<NodeId> wrt;
  for (const ParameterSpec& spec : model.parameters()) {
    wrt.push_back(model.graph().Find(spec.name));
  }
  const NodeId one = Ones(&model.graph());
  const std::vector<NodeId> gradients = Gradients(&model.graph(), {{loss, one}}, wrt);
  Bindings bindings = RandomBindings(model.graph(), 1, {.steps = 6, .batch = 5, .ragged = false});
  bindings.indices["label"].data = {0, 1, 2, 0, 1};
  for (const ParameterSpec& spec : model.parameters()) {
    const std::vector<float> drawn = DrawParameter(spec, 5);
    bindings.values[spec.name].data.assign(drawn.begin(), drawn.end());
  }
  const double before = InterpretNodes(model.graph(), bindings, {loss}).front().data[0];
  for (int step = 0; step < 150; ++step) {
    const std::vector<Array> slopes = InterpretNodes(model.graph(), bindings, gradients);
    for (size_t i = 0; i < slopes.size(); ++i) {
      std::vector<double>& values = bindings.values[model.parameters()[i].name].data;
      for (size_t k = 0; k < values.size(); ++k) values[k] -= 0.5 * slopes[i].data[k];
    }
  }
  EXPECT_GT(before, 0.7);
  EXPECT_LT(InterpretNodes(model.graph(), bindings, {loss}).front().data[0], 0.05);
}

TEST(Classifier, NamesWhatIsWrong) {
  EXPECT_THROW(PoolingNamed("median"), Error);
  Model model;
  EXPECT_THROW(BuildClassifier(model, {}), Error);
}

}  // namespace
}  // namespace turbolstm
