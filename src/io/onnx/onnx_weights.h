#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "io/onnx/onnx_node.h"
#include "io/onnx/onnx_tensor.h"

namespace turbolstm {

// A recurrent node with the weights that the model has as constants. Shapes as OnnxRecurrentNode
// states them; I is what W says.
struct OnnxRecurrentWeights {
  OnnxRecurrentNode node;
  OnnxTensor weight_ih;                // W
  OnnxTensor weight_hh;                // R
  std::optional<OnnxTensor> bias;      // B
  std::optional<OnnxTensor> peephole;  // P
};

// All RNN, GRU and LSTM nodes of a model's main graph, in its order. Throws Error naming `source`
// and the node for weights that are no float32 constants or do not fit the node, and for whatever
// ParseOnnxRecurrentNode refuses.
std::vector<OnnxRecurrentWeights> ParseOnnxRecurrentWeights(std::string_view bytes,
                                                            std::string_view source);

}  // namespace turbolstm
