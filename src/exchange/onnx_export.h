#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>

#include "nn/classifier.h"
#include "nn/recurrent.h"

namespace turbolstm {

// The values of a parameter by its full name, "lstm.weight_ih_l0", row-major.
using ParameterValues = std::function<std::span<const float>(const std::string& name)>;
// Beside the model, for whoever reads it.
using OnnxMetadata = std::map<std::string, std::string>;

// ONNX models (opset 14) as bytes of a file; T and B are symbolic, so a model runs every shape.
// Layers of lstm, peephole_lstm, gru, gru_original, rnn_tanh and rnn_relu become ONNX's LSTM, GRU
// and RNN; those of other cells, of LSTMs with a clip, and with zoneout (whose mean it is
// then) become Scan nodes. What
// acts in training only is left out. Throws Error for a parameter of another size than the options
// say, and for a model beyond the 2 GiB that ONNX files can have.

// Layers. Inputs: x [T, B, I] (batch_first: [B, T, I]), sequence_lens [B] int32 (each 0..T) and for
// each state its initial values, <state>_0 [L * D, B, delay * n] (layer by layer, forward first).
// Outputs: y [T, B, D * S], zero where padded (batch_first: [B, T, D * S]), and final states
// <state>_n like <state>_0. `name` prefixes the parameters: "<name>.weight_ih_l0".
std::string OnnxOfLayers(const RecurrentOptions& options, const std::string& name, bool batch_first,
                         const ParameterValues& values, const OnnxMetadata& metadata = {});

// A classifier of texts. Inputs: tokens [T, B] int64, sequence_lens [B] int32. Outputs:
// logits [B, classes] and probabilities [B, classes].
std::string OnnxOfClassifier(const ClassifierOptions& options, const ParameterValues& values,
                             const OnnxMetadata& metadata = {});

}  // namespace turbolstm
