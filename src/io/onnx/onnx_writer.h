#pragma once

#include <onnx.pb.h>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace turbolstm {

onnx::AttributeProto OnnxInteger(std::string_view name, int64_t value);
onnx::AttributeProto OnnxIntegers(std::string_view name, const std::vector<int64_t>& values);
onnx::AttributeProto OnnxFloat(std::string_view name, float value);
onnx::AttributeProto OnnxText(std::string_view name, std::string_view value);
onnx::AttributeProto OnnxTexts(std::string_view name, const std::vector<std::string>& values);

// An axis of a declared value: its size, or a name where it is only known at run time.
struct OnnxAxis {
  OnnxAxis(int64_t fixed) : size(fixed) {}                             // NOLINT: reads as a shape
  OnnxAxis(const char* symbol) : size(-1), name(symbol) {}             // NOLINT
  OnnxAxis(std::string symbol) : size(-1), name(std::move(symbol)) {}  // NOLINT
  int64_t size;
  std::string name;
};

// Adds to a graph. What a node gives is called by the name returned; names are unique in the whole
// model. Constants stand in the outermost graph, whose values every body sees.
class OnnxWriter {
 public:
  explicit OnnxWriter(onnx::GraphProto* graph);
  // For the body of a node of this graph.
  OnnxWriter Body(onnx::GraphProto* body) const;

  using Attributes = std::vector<onnx::AttributeProto>;
  // Operators of one result.
  std::string Add(std::string_view op, const std::vector<std::string>& inputs,
                  const Attributes& attributes = {});
  // Any operator: the names of its results. An empty input is one that is left out.
  std::vector<std::string> AddMany(std::string_view op, const std::vector<std::string>& inputs,
                                   int results, const Attributes& attributes = {});

  std::string Floats(std::string_view name, const std::vector<int64_t>& shape,
                     std::span<const float> values);
  std::string Number(float value);                           // [1]
  std::string Integers(const std::vector<int64_t>& values);  // [n], int64

  void Input(const std::string& name, onnx::TensorProto::DataType type,
             const std::vector<OnnxAxis>& shape);
  // Declares an output of this graph, which is called so whatever the value is called.
  void Output(const std::string& value, const std::string& name, onnx::TensorProto::DataType type,
              const std::vector<OnnxAxis>& shape);

  // In common use. Axes count from 0.
  std::string Reshape(const std::string& x, const std::vector<int64_t>& shape);  // 0 keeps an axis
  std::string Transpose(const std::string& x, const std::vector<int64_t>& order);
  std::string Slice(const std::string& x, int64_t axis, int64_t begin, int64_t end);
  std::string Unsqueeze(const std::string& x, int64_t axis);
  std::string Concat(const std::vector<std::string>& parts, int64_t axis);
  std::string Cast(const std::string& x, onnx::TensorProto::DataType type);

 private:
  struct Shared {
    onnx::GraphProto* top = nullptr;
    int64_t names = 0;
    std::map<std::string, std::string, std::less<>> constants;  // by what they hold
  };
  OnnxWriter(onnx::GraphProto* graph, std::shared_ptr<Shared> shared);
  std::string NewName(std::string_view stem);

  onnx::GraphProto* graph_;
  std::shared_ptr<Shared> shared_;
};

}  // namespace turbolstm
