#include "nn/classifier.h"

#include <gtest/gtest.h>

#include "base/error.h"

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

TEST(Classifier, NamesWhatIsWrong) {
  EXPECT_THROW(PoolingNamed("median"), Error);
  Model model;
  EXPECT_THROW(BuildClassifier(model, {}), Error);
}

}  // namespace
}  // namespace turbolstm
