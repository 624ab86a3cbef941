#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace turbolstm {

enum class OnnxRecurrentOp : uint8_t { kRnn, kGru, kLstm };
enum class OnnxDirection : uint8_t { kForward, kReverse, kBidirectional };

// Gates G of the operator: 1, 3 (rows z r h), 4 (rows i o f c).
int64_t GateCount(OnnxRecurrentOp op);

// An ONNX RNN, GRU or LSTM node as the operator's definition (opset 7 to 22) states it. Names of
// absent optional inputs and outputs are empty. Shapes, with layout 0 (layout 1 has B first in X, Y
// and the states):
//   inputs   X [T, B, I], W [D, G*H, I], R [D, G*H, H], B [D, 2*G*H] (bias_ih then bias_hh),
//   sequence_lens [B] int32,
//            initial_h [D, B, H]; LSTM only: initial_c [D, B, H], P [D, 3*H] (peepholes i o f)
//   outputs  Y [T, D, B, H], Y_h [D, B, H]; LSTM only: Y_c [D, B, H]
struct OnnxRecurrentNode {
  std::string name;
  OnnxRecurrentOp op = OnnxRecurrentOp::kLstm;
  OnnxDirection direction = OnnxDirection::kForward;
  int64_t hidden_size = 0;  // H
  std::vector<std::string>
      activations;  // defaults filled in; one set a direction: Sigmoid Tanh Tanh for LSTM
  std::vector<float> activation_alpha;  // as given
  std::vector<float> activation_beta;   // as given
  std::optional<float> clip;            // bounds the input of every activation to [-clip, clip]
  bool input_forget = false;            // LSTM: f = 1 - i
  bool linear_before_reset = false;     // GRU: true is PyTorch's and cuDNN's variant
  bool batch_first = false;             // layout 1
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;

  // D
  int64_t directions() const { return direction == OnnxDirection::kBidirectional ? 2 : 1; }
};

// Reads a model whose graph is one RNN, GRU or LSTM node. Throws Error naming the file when it
// cannot be read, is no ONNX model, has another number or kind of nodes, an opset below 7, or an
// attribute that is unknown, given twice, of the wrong type or out of range: nothing is ignored.
OnnxRecurrentNode ReadOnnxRecurrentNode(const std::filesystem::path& path);

// The same from bytes in memory; `source` is what errors call them.
OnnxRecurrentNode ParseOnnxRecurrentNode(std::string_view bytes, std::string_view source);

}  // namespace turbolstm
