#include "exchange/onnx_import.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error_test.h"
#include "exchange/onnx_export.h"
#include "nn/model.h"

namespace turbolstm {
namespace {

using ::testing::IsEmpty;

RecurrentOptions Layer(const std::string& cell) {
  RecurrentOptions options;
  options.cell = cell;
  options.size.input = 3;
  options.size.hidden = 4;
  return options;
}

// Parameters of which every element is another number.
class Parameters {
 public:
  explicit Parameters(const RecurrentOptions& options) {
    Model model;
    const Value x = model.builder().Input("x", Domain::kStep, {options.size.input});
    Recurrent(model, "rnn", x, options);
    for (const ParameterSpec& spec : model.parameters()) {
      std::vector<float>& values = values_[spec.name];
      for (int64_t i = 0; i < ElementCount(spec.shape); ++i) values.push_back(next_++);
    }
  }

  ParameterValues Lookup() const {
    return [this](const std::string& name) -> std::span<const float> { return values_.at(name); };
  }
  const std::map<std::string, std::vector<float>>& all() const { return values_; }

 private:
  std::map<std::string, std::vector<float>> values_;
  float next_ = 0;
};

class OnnxImport : public ::testing::TestWithParam<const char*> {};

TEST_P(OnnxImport, GivesBackWhatWasExported) {
  RecurrentOptions options = Layer(GetParam());
  options.bidirectional = true;
  const Parameters parameters(options);
  const std::string bytes = OnnxOfLayers(options, "rnn", false, parameters.Lookup());
  const std::vector<ImportedLayer> layers = ImportOnnxLayers(bytes, "m.onnx");
  ASSERT_EQ(layers.size(), 1);
  const ImportedLayer& layer = layers[0];
  EXPECT_EQ(layer.spec.cell, options.cell);
  EXPECT_EQ(layer.spec.input, 3);
  EXPECT_EQ(layer.spec.hidden, 4);
  EXPECT_TRUE(layer.spec.bidirectional);
  EXPECT_TRUE(layer.spec.bias);
  EXPECT_EQ(layer.parameters.size(), parameters.all().size());
  for (const auto& [name, parameter] : layer.parameters) {
    EXPECT_EQ(parameter.values, parameters.all().at("rnn." + name)) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Cells, OnnxImport,
                         ::testing::Values("lstm", "peephole_lstm", "gru", "gru_original",
                                           "rnn_tanh", "rnn_relu"));

TEST(OnnxImport, FindsNoLayersInAScan) {
  const RecurrentOptions options = Layer("mgu");
  const Parameters parameters(options);
  EXPECT_THAT(ImportOnnxLayers(OnnxOfLayers(options, "rnn", false, parameters.Lookup()), "m.onnx"),
              IsEmpty());
}

TEST(OnnxImport, NamesTheFileThatIsNoModel) {
  ExpectParts(ErrorOf([] { ImportOnnxLayers("no model", "m.onnx"); }), {"m.onnx"});
}

TEST(OnnxExport, NamesAParameterOfAnotherSize) {
  const RecurrentOptions options = Layer("gru");
  const std::vector<float> values(5);
  const ParameterValues lookup = [&](const std::string&) -> std::span<const float> {
    return values;
  };
  ExpectParts(ErrorOf([&] { OnnxOfLayers(options, "rnn", false, lookup); }),
              {"rnn.weight_ih_l0", "5", "[12, 3]"});
}

}  // namespace
}  // namespace turbolstm
