#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace turbolstm {

// A recurrent cell that a network can be made of.
struct CellInfo {
  std::string name;
  std::string description;  // one line, with the source of the equations
  bool projects = false;    // wants a projection size
};
std::vector<CellInfo> ListCells();

// Layers of one cell. Letters: T time, B batch, I input, H hidden, P projection.
struct RecurrentSpec {
  std::string cell = "lstm";
  int64_t input = 0;       // I
  int64_t hidden = 0;      // H
  int64_t projection = 0;  // P, of cells that project; 0: none
  int64_t heads = 1;       // blocks of a block-diagonal recurrent weight; divides H
  int32_t delay = 2;       // of a cell with a delayed second reading of its state
  bool bias = true;
  std::optional<double> clip = {};  // bounds what goes into an activation to [-clip, clip]
  bool coupled_gates = false;       // forget gate = 1 - input gate

  int64_t layers = 1;
  bool bidirectional = false;
  std::vector<bool> reversed = {};  // by layer, where not bidirectional; empty: all forward in time
  bool residual = false;            // layers behind the first add their input to their output
  double dropout = 0;               // between layers, in training
  double zoneout = 0;               // elements of carried states that keep their previous value
  double recurrent_dropout = 0;     // variational, on h where it enters matrix products
  bool given_states = false;        // initial states are inputs, else zeros
};

struct CompileOptions {
  // Names of what is differentiated: "x", initial states, parameters. Empty: no backward pass.
  std::vector<std::string> gradients = {};
  // Names of the outputs whose gradients are given: "y", final states. Their inputs are called
  // "d.y", and likewise.
  std::vector<std::string> cotangents = {};
  std::string precision = "fp32";  // or "bf16"; values at the door are fp32 always
  int threads = 0;                 // 0: one for each core
  // How the work is cut and ordered: "sequential", "whole-window", "wavefront", "cell-wavefront",
  // "turbolstm" or "auto", which takes what a model of the machine expects to be the fastest.
  std::string schedule = "auto";
};

enum class ValueRows : uint8_t { kNone, kBatch, kStep };

// A value by name: [F..], [B, F] or [T, B, F] as rows says.
struct ValueInfo {
  std::string name;
  ValueRows rows = ValueRows::kNone;
  std::vector<int64_t> features;
};

// A state of one layer and direction.
struct StateInfo {
  std::string state;    // "h", "c"
  std::string initial;  // "h_0_l0_reverse": an input where states are given
  std::string final;    // "h_n_l0_reverse": an output
  int64_t size = 0;     // elements of a sequence
};

class RecurrentRun;

// A network compiled for every shape. Input "x" [T, B, I]; output "y" [T, B, D * (P or H)];
// parameters under PyTorch's names ("weight_ih_l0", "bias_hh_l1_reverse"); gradients are outputs
// called "d.<name>". Unchanging, so for any number of threads.
class RecurrentNetwork {
 public:
  // Error: an option the cell does not have or out of its range, or an unknown name.
  explicit RecurrentNetwork(const RecurrentSpec& spec, const CompileOptions& options = {});
  ~RecurrentNetwork();
  RecurrentNetwork(const RecurrentNetwork&) = delete;
  RecurrentNetwork& operator=(const RecurrentNetwork&) = delete;

  const std::vector<ValueInfo>& parameters() const;
  const std::vector<StateInfo>& states() const;  // by layer, direction (forward first), state
  const std::vector<ValueInfo>& inputs() const;  // all that has to be bound, parameters included
  const std::vector<ValueInfo>& outputs() const;
  // Of one parameter, drawn as the cell's source wants it. Error: no such name.
  std::vector<float> InitialValues(std::string_view parameter, uint64_t seed) const;

  std::unique_ptr<RecurrentRun> NewRun() const;

 private:
  friend class RecurrentRun;
  struct Compiled;
  std::shared_ptr<const Compiled> compiled_;
};

// The memory of one use of a network: what the forward pass keeps for the backward pass. Several
// runs of one network may be under way at once. One run is not for several threads at once; runs
// with the same number of threads share these and take turns.
class RecurrentRun {
 public:
  ~RecurrentRun();
  RecurrentRun(const RecurrentRun&) = delete;
  RecurrentRun& operator=(const RecurrentRun&) = delete;

  // At most 2^20 steps. lengths: [B], each 0..T, or empty for all T. resets: [T, B], not 0 where a
  // sequence starts anew from zeros, or empty. Padded steps of outputs are zeros.
  void SetShape(int64_t steps, int64_t batch, std::span<const int32_t> lengths = {},
                std::span<const uint8_t> resets = {});

  // Values are read where they lie, without a copy but for inputs of ragged batches; they must stay
  // valid and unchanged until the passes that need them are done.
  void Bind(std::string_view name, std::span<const float> values);
  // Step values as a PackedSequence has them: the rows of the sequences that reach a step, longest
  // first, one step after the other. Never copied.
  void BindRows(std::string_view name, std::span<const float> values);
  // To be said when bound parameters hold new numbers.
  void ParametersChanged();

  // training: random masks are drawn from the seed, not replaced by their mean.
  void Forward(bool training = false, uint64_t seed = 0);
  // Once after each forward pass, when the gradients "d.<output>" are bound.
  void Backward();

  // Copies an output. Error: no such output, it is not computed yet, or a wrong size.
  void Read(std::string_view name, std::span<float> values);
  void ReadRows(std::string_view name, std::span<float> values);

  int64_t memory_bytes() const;

 private:
  friend class RecurrentNetwork;
  struct State;
  explicit RecurrentRun(std::shared_ptr<const RecurrentNetwork::Compiled> compiled);
  std::unique_ptr<State> state_;
};

}  // namespace turbolstm
