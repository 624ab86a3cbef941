#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "turbolstm/recurrent.h"

namespace turbolstm {

struct ImportedParameter {
  std::vector<int64_t> shape;
  std::vector<float> values;  // row-major
};

// An LSTM, GRU or RNN node of an ONNX model as one of our layers.
struct ImportedLayer {
  std::string name;  // of the node
  RecurrentSpec spec;
  bool batch_first = false;  // layout 1
  // Under PyTorch's names and with its order of gates: "weight_ih_l0", "bias_hh_l0_reverse".
  std::map<std::string, ImportedParameter> parameters;
};

// All recurrent nodes of a model's main graph, in its order; their weights have to be constants of
// the file. Clip, input_forget, layout, direction, linear_before_reset and peepholes are taken
// over. Throws Error naming the file, the node and what it has that our cells have not: other
// activations than the operator's own (an RNN may have Relu), Scan or Loop bodies are not searched.
std::vector<ImportedLayer> ImportOnnxLayers(const std::filesystem::path& path);
// The same from bytes in memory; `source` is what errors call them.
std::vector<ImportedLayer> ImportOnnxLayers(std::string_view bytes, std::string_view source);

}  // namespace turbolstm
