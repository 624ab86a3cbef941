#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>

#include "graph/graph.h"
#include "io/onnx/onnx_writer.h"

namespace turbolstm {

// The values of a graph at one step of time, each as ONNX nodes on [B, n] (Static ones: [n]), made
// when it is asked for. What acts in training only is replaced by its mean.
class OnnxValues {
 public:
  // parameter: the name in ONNX of a parameter's values.
  OnnxValues(OnnxWriter* writer, const Graph& graph,
             std::function<std::string(const Node&)> parameter)
      : writer_(*writer), graph_(graph), parameter_(std::move(parameter)) {}

  void AddInput(NodeId id, std::string name) { names_[id] = std::move(name); }
  // Past values of a node: [B, delay * n], oldest first.
  void AddHistory(NodeId id, int32_t delay, std::string name) {
    histories_[id] = {delay, std::move(name)};
  }

  // Throws Error naming an operator that ONNX is not told here.
  std::string Of(NodeId id);

 private:
  std::string Read(const Edge& edge);
  std::string Make(const Node& node);
  std::string MakeProduct(const Node& node);
  std::string MakeSlice(const Node& node);
  std::string MakeConcat(const Node& node);
  std::string MakeRowSum(const Node& node);
  std::string Operand(const Node& node, size_t i) { return Read(node.inputs[i]); }
  // Where the first feature axis of a value stands.
  int64_t FirstAxis(const Node& node) const { return node.domain == Domain::kStatic ? 0 : 1; }

  OnnxWriter& writer_;
  const Graph& graph_;
  std::function<std::string(const Node&)> parameter_;
  std::map<NodeId, std::string> names_;
  std::map<NodeId, std::pair<int32_t, std::string>> histories_;
  std::map<std::pair<NodeId, int32_t>, std::string> past_;
};

}  // namespace turbolstm
