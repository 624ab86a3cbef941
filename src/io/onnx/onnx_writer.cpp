#include "io/onnx/onnx_writer.h"

#include <cstring>
#include <utility>

#include "base/error.h"

namespace turbolstm {
namespace {

onnx::AttributeProto Attribute(std::string_view name, onnx::AttributeProto::AttributeType type) {
  onnx::AttributeProto attribute;
  attribute.set_name(std::string(name));
  attribute.set_type(type);
  return attribute;
}

void Declare(onnx::ValueInfoProto* value, const std::string& name, onnx::TensorProto::DataType type,
             const std::vector<OnnxAxis>& shape) {
  value->set_name(name);
  onnx::TypeProto::Tensor& tensor = *value->mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(type);
  tensor.mutable_shape();  // a scalar has a shape too
  for (const OnnxAxis& axis : shape) {
    if (axis.name.empty()) {
      tensor.mutable_shape()->add_dim()->set_dim_value(axis.size);
    } else {
      tensor.mutable_shape()->add_dim()->set_dim_param(axis.name);
    }
  }
}

}  // namespace

onnx::AttributeProto OnnxInteger(std::string_view name, int64_t value) {
  onnx::AttributeProto attribute = Attribute(name, onnx::AttributeProto::INT);
  attribute.set_i(value);
  return attribute;
}

onnx::AttributeProto OnnxIntegers(std::string_view name, const std::vector<int64_t>& values) {
  onnx::AttributeProto attribute = Attribute(name, onnx::AttributeProto::INTS);
  for (const int64_t value : values) attribute.add_ints(value);
  return attribute;
}

onnx::AttributeProto OnnxFloat(std::string_view name, float value) {
  onnx::AttributeProto attribute = Attribute(name, onnx::AttributeProto::FLOAT);
  attribute.set_f(value);
  return attribute;
}

onnx::AttributeProto OnnxText(std::string_view name, std::string_view value) {
  onnx::AttributeProto attribute = Attribute(name, onnx::AttributeProto::STRING);
  attribute.set_s(std::string(value));
  return attribute;
}

onnx::AttributeProto OnnxTexts(std::string_view name, const std::vector<std::string>& values) {
  onnx::AttributeProto attribute = Attribute(name, onnx::AttributeProto::STRINGS);
  for (const std::string& value : values) attribute.add_strings(value);
  return attribute;
}

OnnxWriter::OnnxWriter(onnx::GraphProto* graph)
    : graph_(graph), shared_(std::make_shared<Shared>()) {
  shared_->top = graph;
}

OnnxWriter::OnnxWriter(onnx::GraphProto* graph, std::shared_ptr<Shared> shared)
    : graph_(graph), shared_(std::move(shared)) {}

OnnxWriter OnnxWriter::Body(onnx::GraphProto* body) const {
  return OnnxWriter(body, shared_);
}

std::string OnnxWriter::NewName(std::string_view stem) {
  return fmt::format("{}_{}", stem, shared_->names++);
}

std::string OnnxWriter::Add(std::string_view op, const std::vector<std::string>& inputs,
                            const Attributes& attributes) {
  return AddMany(op, inputs, 1, attributes)[0];
}

std::vector<std::string> OnnxWriter::AddMany(std::string_view op,
                                             const std::vector<std::string>& inputs, int results,
                                             const Attributes& attributes) {
  onnx::NodeProto& node = *graph_->add_node();
  node.set_op_type(std::string(op));
  for (const std::string& input : inputs) node.add_input(input);
  std::vector<std::string> names;
  for (int i = 0; i < results; ++i) {
    names.push_back(NewName(op));
    node.add_output(names.back());
  }
  node.set_name(names[0]);
  for (const onnx::AttributeProto& attribute : attributes) *node.add_attribute() = attribute;
  return names;
}

std::string OnnxWriter::Floats(std::string_view name, const std::vector<int64_t>& shape,
                               std::span<const float> values) {
  onnx::TensorProto& tensor = *shared_->top->add_initializer();
  tensor.set_name(NewName(name));
  tensor.set_data_type(onnx::TensorProto::FLOAT);
  for (const int64_t size : shape) tensor.add_dims(size);
  tensor.set_raw_data(values.data(), values.size_bytes());
  return tensor.name();
}

std::string OnnxWriter::Number(float value) {
  const std::string key = "float " + std::string(reinterpret_cast<const char*>(&value), 4);
  const auto [known, added] = shared_->constants.try_emplace(key);
  if (added) known->second = Floats("number", {1}, {&value, 1});
  return known->second;
}

std::string OnnxWriter::Integers(const std::vector<int64_t>& values) {
  const auto [known, added] =
      shared_->constants.try_emplace(fmt::format("integers {}", fmt::join(values, " ")));
  if (!added) return known->second;
  onnx::TensorProto& tensor = *shared_->top->add_initializer();
  tensor.set_name(NewName("integers"));
  tensor.set_data_type(onnx::TensorProto::INT64);
  tensor.add_dims(std::ssize(values));
  for (const int64_t value : values) tensor.add_int64_data(value);
  known->second = tensor.name();
  return known->second;
}

void OnnxWriter::Input(const std::string& name, onnx::TensorProto::DataType type,
                       const std::vector<OnnxAxis>& shape) {
  Declare(graph_->add_input(), name, type, shape);
}

void OnnxWriter::Output(const std::string& value, const std::string& name,
                        onnx::TensorProto::DataType type, const std::vector<OnnxAxis>& shape) {
  onnx::NodeProto& node = *graph_->add_node();
  node.set_op_type("Identity");
  node.set_name(NewName("Identity"));
  node.add_input(value);
  node.add_output(name);
  Declare(graph_->add_output(), name, type, shape);
}

std::string OnnxWriter::Reshape(const std::string& x, const std::vector<int64_t>& shape) {
  return Add("Reshape", {x, Integers(shape)});
}

std::string OnnxWriter::Transpose(const std::string& x, const std::vector<int64_t>& order) {
  return Add("Transpose", {x}, {OnnxIntegers("perm", order)});
}

std::string OnnxWriter::Slice(const std::string& x, int64_t axis, int64_t begin, int64_t end) {
  return Add("Slice", {x, Integers({begin}), Integers({end}), Integers({axis})});
}

std::string OnnxWriter::Unsqueeze(const std::string& x, int64_t axis) {
  return Add("Unsqueeze", {x, Integers({axis})});
}

std::string OnnxWriter::Concat(const std::vector<std::string>& parts, int64_t axis) {
  return parts.size() == 1 ? parts[0] : Add("Concat", parts, {OnnxInteger("axis", axis)});
}

std::string OnnxWriter::Cast(const std::string& x, onnx::TensorProto::DataType type) {
  return Add("Cast", {x}, {OnnxInteger("to", type)});
}

}  // namespace turbolstm
