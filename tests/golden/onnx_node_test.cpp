// ONNX's own tests of LSTM, GRU and RNN, run as our layers by the interpreter and by executables.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "graph/interpreter.h"
#include "io/onnx/onnx_case.h"
#include "nn/recurrent.h"
#include "plan/comparison.h"

namespace turbolstm {
namespace {

namespace fs = std::filesystem;

// The expected numbers are float32.
constexpr double kTolerance = 1e-6;

// Where Debian's libonnx-testdata puts them; TL_ONNX_NODE_TESTS names another place.
fs::path NodeTests() {
  const char* given = std::getenv("TL_ONNX_NODE_TESTS");
  return given ? given : "/usr/share/libonnx-testdata/data/node";
}

// Block k of our rows stands at this block of ONNX's.
std::vector<int64_t> GateOrder(OnnxRecurrentOp op) {
  switch (op) {
    case OnnxRecurrentOp::kLstm:
      return {0, 2, 3, 1};  // i f g o from i o f c
    case OnnxRecurrentOp::kGru:
      return {1, 0, 2};  // r z n from z r h
    case OnnxRecurrentOp::kRnn:
      return {0};
  }
  return {};
}

const std::vector<int64_t> kPeepholeOrder = {0, 2, 1};  // i f o from i o f

class OnnxCase {
 public:
  explicit OnnxCase(OnnxRecurrentCase data)
      : data_(std::move(data)),
        T_(data_.x.shape[batch_first() ? 1 : 0]),
        B_(data_.x.shape[batch_first() ? 0 : 1]),
        I_(data_.x.shape[2]),
        H_(data_.node.hidden_size),
        D_(data_.node.directions()) {}

  void Check() {
    Model model;
    const Value x = model.builder().Input("x", Domain::kStep, {I_});
    const RecurrentResult result = Recurrent(model, "rnn", x, Options());
    model.graph().AddOutput("y", result.output.id());
    AddFinalStates(model, result);
    Bind(model, result);
    Outputs interpreted;
    for (const auto& [name, array] : Interpret(model.graph(), bindings_)) {
      interpreted[name] = {array.data.begin(), array.data.end()};
    }
    CheckAll(interpreted, result);
    for (const CellKernels kernels : {CellKernels::kInterpreted, CellKernels::kCompiled}) {
      Choose(kernels, model.graph());
      CheckAll(Execute(model.graph(), bindings_, {.streams = 2}), result);
    }
  }

 private:
  bool batch_first() const { return data_.node.batch_first; }
  static int64_t DirectionOf(const std::string& name) { return name.ends_with("_reverse") ? 1 : 0; }

  RecurrentOptions Options() const {
    RecurrentOptions options;
    switch (data_.node.op) {
      case OnnxRecurrentOp::kLstm:
        options.cell = data_.peephole ? "peephole_lstm" : "lstm";
        break;
      case OnnxRecurrentOp::kGru:
        options.cell = data_.node.linear_before_reset ? "gru" : "gru_original";
        break;
      case OnnxRecurrentOp::kRnn:
        options.cell = "rnn_tanh";
        break;
    }
    options.size.input = I_;
    options.size.hidden = H_;
    options.size.bias = data_.bias.has_value();
    options.size.clip = data_.node.clip;
    options.size.coupled_gates = data_.node.input_forget;
    options.bidirectional = D_ == 2;
    if (data_.node.direction == OnnxDirection::kReverse) options.directions = {Direction::kReverse};
    options.initial = InitialState::kGiven;
    return options;
  }

  void Bind(const Model& model, const RecurrentResult& result) {
    bindings_.steps = T_;
    bindings_.batch = B_;
    if (data_.lengths) {
      bindings_.lengths.assign(data_.lengths->integers.begin(), data_.lengths->integers.end());
    }
    bindings_.values["x"] = TimeMajor();
    for (const ParameterSpec& spec : model.parameters()) {
      bindings_.values[spec.name] = {spec.shape, Rows(spec.name)};
    }
    for (const RecurrentState& state : result.states) {
      const bool cell = state.input.starts_with("rnn.c");
      const std::optional<OnnxTensor>& initial = cell ? data_.initial_c : data_.initial_h;
      Array& array = bindings_.values[state.input];
      array = {{B_, H_}, std::vector<double>(static_cast<size_t>(B_ * H_), 0.0)};
      if (!initial) continue;
      for (int64_t i = 0; i < B_ * H_; ++i) {
        array.data[static_cast<size_t>(i)] =
            StateAt(*initial, DirectionOf(state.input), i / H_, i % H_);
      }
    }
  }

  Array TimeMajor() const {
    Array x{{T_, B_, I_}, {}};
    for (int64_t t = 0; t < T_; ++t) {
      for (int64_t b = 0; b < B_; ++b) {
        const int64_t row = batch_first() ? b * T_ + t : t * B_ + b;
        const auto first = data_.x.floats.begin() + row * I_;
        x.data.insert(x.data.end(), first, first + I_);
      }
    }
    return x;
  }

  // A parameter of ours, by its name, from the node's packed tensors [D, ...].
  std::vector<double> Rows(const std::string& name) const {
    const std::vector<int64_t> order = GateOrder(data_.node.op);
    const auto gates = static_cast<int64_t>(order.size());
    const int64_t d = DirectionOf(name);
    if (name.find("weight_ih") != name.npos) {
      return Blocks(data_.weight_ih, d * gates * H_ * I_, H_ * I_, order);
    }
    if (name.find("weight_hh") != name.npos) {
      return Blocks(data_.weight_hh, d * gates * H_ * H_, H_ * H_, order);
    }
    if (name.find("weight_ph") != name.npos) {
      return Blocks(*data_.peephole, d * 3 * H_, H_, kPeepholeOrder);
    }
    const bool hidden = name.find("bias_hh") != name.npos;
    return Blocks(*data_.bias, (2 * d + hidden) * gates * H_, H_, order);
  }

  static std::vector<double> Blocks(const OnnxTensor& tensor, int64_t begin, int64_t size,
                                    const std::vector<int64_t>& order) {
    std::vector<double> rows;
    for (const int64_t block : order) {
      const auto first = tensor.floats.begin() + begin + block * size;
      rows.insert(rows.end(), first, first + size);
    }
    return rows;
  }

  double StateAt(const OnnxTensor& tensor, int64_t d, int64_t b, int64_t j) const {
    const int64_t row = batch_first() ? b * D_ + d : d * B_ + b;
    return tensor.floats[static_cast<size_t>(row * H_ + j)];
  }

  void CheckAll(const Outputs& got, const RecurrentResult& result) const {
    if (data_.y) CheckOutput(got.at("y"));
    for (const RecurrentState& state : result.states) {
      const bool cell = state.output.starts_with("rnn.c");
      const std::optional<OnnxTensor>& wanted = cell ? data_.final_c : data_.final_h;
      if (wanted) CheckState(got.at(state.output), *wanted, DirectionOf(state.output));
    }
  }

  void CheckState(const std::vector<float>& got, const OnnxTensor& wanted, int64_t d) const {
    for (int64_t i = 0; i < B_ * H_; ++i) {
      EXPECT_NEAR(got[static_cast<size_t>(i)], StateAt(wanted, d, i / H_, i % H_), kTolerance);
    }
  }

  // Ours: [T, B, D*H]; theirs: [T, D, B, H] or [B, T, D, H].
  void CheckOutput(const std::vector<float>& got) const {
    for (int64_t i = 0; i < T_ * B_ * D_ * H_; ++i) {
      const int64_t j = i % H_, d = i / H_ % D_, b = i / (H_ * D_) % B_, t = i / (H_ * D_ * B_);
      const int64_t row = batch_first() ? (b * T_ + t) * D_ + d : (t * D_ + d) * B_ + b;
      EXPECT_NEAR(got[static_cast<size_t>(i)], data_.y->floats[static_cast<size_t>(row * H_ + j)],
                  kTolerance);
    }
  }

  OnnxRecurrentCase data_;
  int64_t T_, B_, I_, H_, D_;
  Bindings bindings_;
};

TEST(OnnxNodeTests, OutputsAndFinalStates) {
  if (!fs::is_directory(NodeTests())) GTEST_SKIP() << "no " << NodeTests();
  int cases = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(NodeTests())) {
    const std::string name = entry.path().filename();
    const bool ours = name.starts_with("test_lstm_") || name.starts_with("test_gru_") ||
                      name.starts_with("test_rnn_") || name.starts_with("test_simple_rnn_");
    if (!ours) continue;
    SCOPED_TRACE(name);
    OnnxCase(ReadOnnxRecurrentCase(entry.path())).Check();
    ++cases;
  }
  EXPECT_GE(cases, 12);
}

}  // namespace
}  // namespace turbolstm
