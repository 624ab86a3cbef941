#include "io/onnx/onnx_node.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx.pb.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>

#include "base/error_test.h"
#include "io/onnx/onnx_case.h"

namespace turbolstm {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// ONNX's node tests as Debian's libonnx-testdata installs them; TL_ONNX_NODE_TESTS names another
// place.
fs::path NodeTests() {
  const char* given = std::getenv("TL_ONNX_NODE_TESTS");
  return given ? given : "/usr/share/libonnx-testdata/data/node";
}

// T = 2, B = 3, I = 4, H = 5, LSTM, all inputs given but lengths, initial states and peepholes.
onnx::ModelProto SmallModel() {
  onnx::ModelProto model;
  model.add_opset_import()->set_version(14);
  onnx::NodeProto& node = *model.mutable_graph()->add_node();
  node.set_op_type("LSTM");
  for (const char* name : {"X", "W", "R", "B"}) node.add_input(name);
  for (const char* name : {"", "Y_h"}) node.add_output(name);
  onnx::AttributeProto& hidden = *node.add_attribute();
  hidden.set_name("hidden_size");
  hidden.set_type(onnx::AttributeProto::INT);
  hidden.set_i(5);
  return model;
}

onnx::AttributeProto& AddAttribute(onnx::ModelProto& model, const std::string& name,
                                   onnx::AttributeProto::AttributeType type) {
  onnx::AttributeProto& attribute = *model.mutable_graph()->mutable_node(0)->add_attribute();
  attribute.set_name(name);
  attribute.set_type(type);
  return attribute;
}

OnnxRecurrentNode Parse(const onnx::ModelProto& model) {
  return ParseOnnxRecurrentNode(model.SerializeAsString(), "m.onnx");
}

onnx::TensorProto FloatTensor(const std::vector<int64_t>& shape) {
  onnx::TensorProto tensor;
  tensor.set_data_type(onnx::TensorProto::FLOAT);
  int64_t count = 1;
  for (const int64_t size : shape) {
    tensor.add_dims(size);
    count *= size;
  }
  for (int64_t i = 0; i < count; ++i) tensor.add_float_data(static_cast<float>(i));
  return tensor;
}

// A case directory of SmallModel() that goes away with the test.
class CaseDirectory {
 public:
  CaseDirectory() {
    std::string name = (fs::temp_directory_path() / "onnx_case_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp");
    path_ = name;
    fs::create_directory(path_ / "test_data_set_0");
    Write("model.onnx", SmallModel());
    WriteTensor("input_0.pb", FloatTensor({2, 3, 4}));
    WriteTensor("input_1.pb", FloatTensor({1, 20, 4}));
    WriteTensor("input_2.pb", FloatTensor({1, 20, 5}));
    WriteTensor("input_3.pb", FloatTensor({1, 40}));
    WriteTensor("output_0.pb", FloatTensor({1, 3, 5}));
  }
  ~CaseDirectory() { fs::remove_all(path_); }

  void Write(const fs::path& name, const google::protobuf::MessageLite& message) const {
    std::ofstream(path_ / name, std::ios::binary) << message.SerializeAsString();
  }
  void WriteTensor(const fs::path& name, const onnx::TensorProto& tensor) const {
    Write("test_data_set_0" / name, tensor);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

TEST(OnnxNodeTests, AllRecurrentDirectoriesRead) {
  if (!fs::is_directory(NodeTests())) {
    GTEST_SKIP() << "0 of 12 node tests read: " << NodeTests()
                 << " is missing (Debian: libonnx-testdata)";
  }
  const std::vector<std::string> names = {
      "gru_batchwise",          "gru_defaults",        "gru_seq_length",
      "gru_with_initial_bias",  "lstm_batchwise",      "lstm_defaults",
      "lstm_with_initial_bias", "lstm_with_peepholes", "rnn_seq_length",
      "simple_rnn_batchwise",   "simple_rnn_defaults", "simple_rnn_with_initial_bias"};
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    const OnnxRecurrentCase read = ReadOnnxRecurrentCase(NodeTests() / ("test_" + name));
    EXPECT_EQ(read.node.batch_first, name.ends_with("batchwise"));
    EXPECT_EQ(read.peephole.has_value(), name.ends_with("peepholes"));
    EXPECT_TRUE(read.final_h.has_value());
    EXPECT_EQ(
        read.weight_ih.floats.size(),
        static_cast<size_t>(GateCount(read.node.op) * read.node.hidden_size * read.x.shape[2]));
  }
}

TEST(OnnxNodeTests, PeepholeCaseHasItsNumbers) {
  const fs::path directory = NodeTests() / "test_lstm_with_peepholes";
  if (!fs::is_directory(directory)) GTEST_SKIP() << directory << " is missing";
  const OnnxRecurrentCase read = ReadOnnxRecurrentCase(directory);
  EXPECT_EQ(read.node.op, OnnxRecurrentOp::kLstm);
  EXPECT_EQ(read.node.hidden_size, 3);
  EXPECT_THAT(read.node.activations, ElementsAre("Sigmoid", "Tanh", "Tanh"));
  EXPECT_THAT(read.x.floats, ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_THAT(read.lengths->integers, ElementsAre(1, 1));
  EXPECT_FLOAT_EQ(read.peephole->floats.at(8), 0.1f);
  EXPECT_NEAR(read.final_h->floats.at(0), 0.3750691f, 1e-6);  // golden value G3
}

TEST(OnnxNode, EveryAttributeArrives) {
  onnx::ModelProto model = SmallModel();
  AddAttribute(model, "direction", onnx::AttributeProto::STRING).set_s("bidirectional");
  AddAttribute(model, "clip", onnx::AttributeProto::FLOAT).set_f(2.5f);
  AddAttribute(model, "input_forget", onnx::AttributeProto::INT).set_i(1);
  AddAttribute(model, "layout", onnx::AttributeProto::INT).set_i(1);
  AddAttribute(model, "activation_alpha", onnx::AttributeProto::FLOATS).add_floats(0.25f);
  AddAttribute(model, "activation_beta", onnx::AttributeProto::FLOATS).add_floats(0.75f);
  onnx::AttributeProto& activations =
      AddAttribute(model, "activations", onnx::AttributeProto::STRINGS);
  for (int i = 0; i < 3; ++i) activations.add_strings("HardSigmoid");
  for (int i = 0; i < 3; ++i) activations.add_strings("Relu");
  const OnnxRecurrentNode node = Parse(model);
  EXPECT_EQ(node.directions(), 2);
  EXPECT_EQ(node.clip, 2.5f);
  EXPECT_TRUE(node.input_forget);
  EXPECT_TRUE(node.batch_first);
  EXPECT_THAT(node.activation_alpha, ElementsAre(0.25f));
  EXPECT_THAT(node.activation_beta, ElementsAre(0.75f));
  EXPECT_EQ(node.activations.at(2), "HardSigmoid");
  EXPECT_EQ(node.activations.at(3), "Relu");
  EXPECT_THAT(node.inputs, ElementsAre("X", "W", "R", "B"));
  EXPECT_THAT(node.outputs, ElementsAre("", "Y_h"));
}

TEST(OnnxNode, DefaultActivationsAreRepeatedPerDirection) {
  onnx::ModelProto model = SmallModel();
  model.mutable_graph()->mutable_node(0)->set_op_type("GRU");
  AddAttribute(model, "direction", onnx::AttributeProto::STRING).set_s("bidirectional");
  AddAttribute(model, "linear_before_reset", onnx::AttributeProto::INT).set_i(1);
  const OnnxRecurrentNode node = Parse(model);
  EXPECT_THAT(node.activations, ElementsAre("Sigmoid", "Tanh", "Sigmoid", "Tanh"));
  EXPECT_TRUE(node.linear_before_reset);
}

TEST(OnnxNode, BadModelsAreRefused) {
  using Model = onnx::ModelProto;
  using A = onnx::AttributeProto;
  const auto node = [](Model& m) { return m.mutable_graph()->mutable_node(0); };
  const std::vector<std::pair<std::string, std::function<void(Model&)>>> kCases = {
      {"names no ONNX opset", [](Model& m) { m.clear_opset_import(); }},
      {"uses opset 6", [](Model& m) { m.mutable_opset_import(0)->set_version(6); }},
      {"has 0 nodes", [](Model& m) { m.mutable_graph()->clear_node(); }},
      {"has 2 nodes", [](Model& m) { m.mutable_graph()->add_node(); }},
      {"node is a Conv", [&](Model& m) { node(m)->set_op_type("Conv"); }},
      {"of domain other", [&](Model& m) { node(m)->set_domain("other"); }},
      {"hidden_size is missing", [&](Model& m) { node(m)->clear_attribute(); }},
      {"hidden_size is 0", [&](Model& m) { node(m)->mutable_attribute(0)->set_i(0); }},
      {"hidden_size has type FLOAT",
       [&](Model& m) { node(m)->mutable_attribute(0)->set_type(A::FLOAT); }},
      {"given twice", [](Model& m) { AddAttribute(m, "hidden_size", A::INT).set_i(5); }},
      {"\"novelty\" is not one", [](Model& m) { AddAttribute(m, "novelty", A::INT); }},
      {"\"linear_before_reset\" is not one",
       [](Model& m) { AddAttribute(m, "linear_before_reset", A::INT); }},
      {"layout is 2", [](Model& m) { AddAttribute(m, "layout", A::INT).set_i(2); }},
      {"clip is -1", [](Model& m) { AddAttribute(m, "clip", A::FLOAT).set_f(-1); }},
      {"direction is \"up\"",
       [](Model& m) { AddAttribute(m, "direction", A::STRING).set_s("up"); }},
      {"has 1 activations",
       [](Model& m) { AddAttribute(m, "activations", A::STRINGS).add_strings("Tanh"); }},
      {"has 2 inputs", [&](Model& m) { node(m)->mutable_input()->DeleteSubrange(2, 2); }},
      {"input W is missing", [&](Model& m) { node(m)->set_input(1, ""); }},
      {"has 9 inputs",
       [&](Model& m) {
         for (int i = 0; i < 5; ++i) node(m)->add_input("more");
       }},
      {"has 4 outputs",
       [&](Model& m) {
         for (int i = 0; i < 2; ++i) node(m)->add_output("more");
       }},
  };
  for (const auto& [text, spoil] : kCases) {
    onnx::ModelProto model = SmallModel();
    spoil(model);
    const std::string error = ErrorOf([&] { Parse(model); });
    EXPECT_THAT(error, HasSubstr(text));
    EXPECT_THAT(error, HasSubstr("[m.onnx]"));
  }
}

TEST(OnnxNode, EveryTruncationIsRefused) {
  const std::string bytes = SmallModel().SerializeAsString();
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THROW(ParseOnnxRecurrentNode(bytes.substr(0, size), "m.onnx"), Error) << size;
  }
  EXPECT_THAT(ErrorOf([] { ReadOnnxRecurrentNode("/no/such/model.onnx"); }),
              HasSubstr("[/no/such/model.onnx] cannot be read"));
}

TEST(OnnxTensor, TypedAndRawDataAreRead) {
  onnx::TensorProto tensor = FloatTensor({2, 2});
  EXPECT_THAT(ParseOnnxTensor(tensor.SerializeAsString(), "t").floats, ElementsAre(0, 1, 2, 3));
  const float raw[] = {5, 6, 7, 8};
  tensor.clear_float_data();
  tensor.set_raw_data(raw, sizeof(raw));
  const OnnxTensor read = ParseOnnxTensor(tensor.SerializeAsString(), "t");
  EXPECT_THAT(read.floats, ElementsAre(5, 6, 7, 8));
  EXPECT_THAT(read.shape, ElementsAre(2, 2));
  EXPECT_TRUE(ParseOnnxTensor(FloatTensor({0, 3}).SerializeAsString(), "t").floats.empty());
  EXPECT_THAT(ParseOnnxTensor(FloatTensor({}).SerializeAsString(), "t").floats, ElementsAre(0));
}

TEST(OnnxTensor, BadTensorsAreRefused) {
  using Tensor = onnx::TensorProto;
  const std::vector<std::pair<std::string, std::function<void(Tensor&)>>> kCases = {
      {"has 4 elements, its shape [2, 3] wants 6", [](Tensor& t) { t.set_dims(1, 3); }},
      {"negative size", [](Tensor& t) { t.set_dims(1, -2); }},
      {"too large", [](Tensor& t) { t.set_dims(0, int64_t{1} << 62); }},
      {"element type 11 (DOUBLE)", [](Tensor& t) { t.set_data_type(Tensor::DOUBLE); }},
      {"element type 77 (unknown)", [](Tensor& t) { t.set_data_type(77); }},
      {"both raw and typed", [](Tensor& t) { t.set_raw_data("0123456789abcdef"); }},
      {"has 3 bytes of data",
       [](Tensor& t) {
         t.clear_float_data();
         t.set_raw_data("abc");
       }},
      {"in another file", [](Tensor& t) { t.set_data_location(Tensor::EXTERNAL); }},
      {"a segment", [](Tensor& t) { t.mutable_segment()->set_begin(1); }},
  };
  for (const auto& [text, spoil] : kCases) {
    Tensor tensor = FloatTensor({2, 2});
    spoil(tensor);
    const std::string error = ErrorOf([&] { ParseOnnxTensor(tensor.SerializeAsString(), "t.pb"); });
    EXPECT_THAT(error, HasSubstr(text));
    EXPECT_THAT(error, HasSubstr("[t.pb]"));
  }
  EXPECT_THAT(ErrorOf([] { ParseOnnxTensor("\xff\xff", "t.pb"); }), HasSubstr("not an ONNX"));
}

TEST(OnnxCase, ReadsADirectory) {
  const CaseDirectory directory;
  const OnnxRecurrentCase read = ReadOnnxRecurrentCase(directory.path());
  EXPECT_EQ(read.x.name, "X");
  EXPECT_FALSE(read.y.has_value());
  EXPECT_EQ(read.final_h->name, "Y_h");
  EXPECT_FALSE(read.lengths.has_value());
}

TEST(OnnxCase, FilesThatDoNotFitTheNodeAreRefused) {
  const std::vector<std::tuple<std::string, std::string, onnx::TensorProto>> kCases = {
      {"input_0.pb", "X has shape [2, 3]", FloatTensor({2, 3})},
      {"input_1.pb", "has shape [1, 20, 3], wants [1, 20, 4]", FloatTensor({1, 20, 3})},
      {"input_2.pb", "has shape [2, 20, 5], wants [1, 20, 5]", FloatTensor({2, 20, 5})},
      {"input_3.pb", "wants [1, 40]", FloatTensor({40})},
      {"output_0.pb", "wants [1, 3, 5]", FloatTensor({3, 1, 5})},
  };
  for (const auto& [file, text, tensor] : kCases) {
    const CaseDirectory directory;
    directory.WriteTensor(file, tensor);
    const std::string error = ErrorOf([&] { ReadOnnxRecurrentCase(directory.path()); });
    EXPECT_THAT(error, HasSubstr(text));
    EXPECT_THAT(error, HasSubstr(file));
    fs::remove(directory.path() / "test_data_set_0" / file);
    EXPECT_THAT(ErrorOf([&] { ReadOnnxRecurrentCase(directory.path()); }),
                HasSubstr("cannot be read"));
  }
}

TEST(OnnxCase, LengthsAreChecked) {
  const CaseDirectory directory;
  onnx::ModelProto model = SmallModel();
  model.mutable_graph()->mutable_node(0)->add_input("sequence_lens");
  directory.Write("model.onnx", model);
  directory.WriteTensor("input_4.pb", FloatTensor({3}));
  EXPECT_THAT(ErrorOf([&] { ReadOnnxRecurrentCase(directory.path()); }),
              HasSubstr("has element type float32, wants int32"));
  onnx::TensorProto lengths;
  lengths.set_data_type(onnx::TensorProto::INT32);
  lengths.add_dims(3);
  for (const int length : {0, 2, 3}) lengths.add_int32_data(length);
  directory.WriteTensor("input_4.pb", lengths);
  EXPECT_THAT(ErrorOf([&] { ReadOnnxRecurrentCase(directory.path()); }),
              HasSubstr("length 3 of row 2 is outside 0 to 2"));
  lengths.set_int32_data(2, 1);
  directory.WriteTensor("input_4.pb", lengths);
  EXPECT_THAT(ReadOnnxRecurrentCase(directory.path()).lengths->integers, ElementsAre(0, 2, 1));
}

}  // namespace
}  // namespace turbolstm
