#pragma once

#include <filesystem>
#include <optional>

#include "io/onnx/onnx_node.h"
#include "io/onnx/onnx_tensor.h"

namespace turbolstm {

// One of ONNX's node tests: a node, its inputs and the outputs it must give. Shapes as
// OnnxRecurrentNode states them.
struct OnnxRecurrentCase {
  OnnxRecurrentNode node;
  OnnxTensor x;
  OnnxTensor weight_ih;               // W
  OnnxTensor weight_hh;               // R
  std::optional<OnnxTensor> bias;     // B
  std::optional<OnnxTensor> lengths;  // sequence_lens
  std::optional<OnnxTensor> initial_h;
  std::optional<OnnxTensor> initial_c;
  std::optional<OnnxTensor> peephole;  // P
  std::optional<OnnxTensor> y;
  std::optional<OnnxTensor> final_h;  // Y_h
  std::optional<OnnxTensor> final_c;  // Y_c
};

// Reads <directory>/model.onnx and <directory>/test_data_set_0/{input,output}_<k>.pb, where k
// counts the inputs (outputs) that the node names. Throws Error naming the file for a missing file,
// a wrong element type, a shape that does not fit the node, or a sequence length outside 0..T.
OnnxRecurrentCase ReadOnnxRecurrentCase(const std::filesystem::path& directory);

}  // namespace turbolstm
