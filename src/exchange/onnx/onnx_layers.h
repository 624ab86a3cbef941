#pragma once

#include <map>
#include <string>
#include <vector>

#include "exchange/onnx_export.h"
#include "io/onnx/onnx_writer.h"

namespace turbolstm {

// A parameter's values, checked to be as many as the shape says.
std::span<const float> ValuesOf(const ParameterValues& values, const std::string& name,
                                const std::vector<int64_t>& shape);

// One layer of a cell, both directions where there are two, as nodes of a graph.
struct OnnxLayer {
  const RecurrentOptions& options;
  const ParameterValues& values;
  std::string name;   // prefix of its parameters without the dot: "lstm"
  int64_t layer = 0;  // 0..L-1
  int64_t input = 0;  // features of x

  int64_t directions() const { return options.bidirectional ? 2 : 1; }
  bool reversed(int64_t direction) const;
  std::string Parameter(const std::string& what, int64_t direction) const;
};

// What a layer reads. An initial state is [D, B, delay * n] or empty for zeros.
struct OnnxLayerInputs {
  std::string x;                               // [T, B, I]
  std::string sequence_lens;                   // [B] int32
  std::map<std::string, std::string> initial;  // by state
};
struct OnnxLayerOutputs {
  std::string y;                             // [T, B, D * S], zero where padded
  std::map<std::string, std::string> final;  // by state: [D, B, delay * n]
};

// Whether ONNX has an operator for the layers' cell and options.
bool HasOnnxOperator(const RecurrentOptions& options);
// As that operator.
OnnxLayerOutputs AddOperatorLayer(OnnxWriter& writer, const OnnxLayer& layer,
                                  const OnnxLayerInputs& inputs);
// As a Scan node a direction, whose body is the cell's equations.
OnnxLayerOutputs AddScanLayer(OnnxWriter& writer, const OnnxLayer& layer,
                              const OnnxLayerInputs& inputs);

// [T, B], bool: whether a step of x [T, B, ..] is within its sequence; lengths: [B] int32.
std::string ValidMask(OnnxWriter& writer, const std::string& x, const std::string& lengths);

// The states of the layers' cell: name and delay * n.
std::vector<std::pair<std::string, int64_t>> StatesOfCell(const RecurrentOptions& options);

}  // namespace turbolstm
