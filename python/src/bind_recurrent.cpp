#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <numeric>

#include "arrays.h"
#include "bind.h"
#include "turbolstm/recurrent.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace turbolstm {
namespace {

using Shape = std::vector<int64_t>;
using Input = nb::ndarray<nb::ro>;
using Output = nb::ndarray<>;

// A run with the arrays that are bound to it, so that they live as long as they may be read.
class Run {
 public:
  explicit Run(const RecurrentNetwork& network)
      : run_(network.NewRun()), inputs_(network.inputs()), outputs_(network.outputs()) {}

  void SetShape(int64_t steps, int64_t batch, const std::optional<Input>& lengths,
                const std::optional<Input>& resets) {
    const Use use(this);
    std::span<const int32_t> length_values;
    std::span<const uint8_t> reset_values;
    if (lengths) {
      CheckShape("lengths", *lengths, {batch});
      length_values = Elements<const int32_t>("lengths", *lengths);
    }
    if (resets) {
      CheckShape("resets", *resets, {steps, batch});
      reset_values = Elements<const uint8_t>("resets", *resets);
    }
    {
      const nb::gil_scoped_release release;
      run_->SetShape(steps, batch, length_values, reset_values);
    }
    steps_ = steps;
    batch_ = batch;
    rows_ = lengths ? std::accumulate(length_values.begin(), length_values.end(), int64_t{0})
                    : steps * batch;
  }

  void Bind(const std::string& name, Input array, bool rows) {
    const Use use(this);
    CheckShape(name, array, ShapeOf(inputs_, name, rows));
    const std::span<const float> values = Elements<const float>(name, array);
    if (rows) {
      run_->BindRows(name, values);
    } else {
      run_->Bind(name, values);
    }
    bound_.insert_or_assign(name, std::move(array));
  }

  void Read(const std::string& name, const Output& out, bool rows) {
    const Use use(this);
    CheckShape(name, out, ShapeOf(outputs_, name, rows));
    const std::span<float> values = Elements<float>(name, out);
    const nb::gil_scoped_release release;
    if (rows) {
      run_->ReadRows(name, values);
    } else {
      run_->Read(name, values);
    }
  }

  Shape OutputShape(const std::string& name, bool rows) const {
    return ShapeOf(outputs_, name, rows);
  }

  void Forward(bool training, uint64_t seed) {
    const Use use(this);
    CheckBound(false);
    const nb::gil_scoped_release release;
    run_->Forward(training, seed);
  }

  void Backward() {
    const Use use(this);
    CheckBound(true);
    const nb::gil_scoped_release release;
    run_->Backward();
  }

  void ParametersChanged() { run_->ParametersChanged(); }
  void Unbind() {
    const Use use(this);
    bound_.clear();
  }
  int64_t MemoryBytes() const { return run_->memory_bytes(); }

 private:
  // Keeps other threads out while the GIL is released.
  class Use {
   public:
    explicit Use(Run* run) : run_(*run) {
      if (run_.busy_) throw nb::value_error("[run] another thread uses it; each needs its own");
      run_.busy_ = true;
    }
    ~Use() { run_.busy_ = false; }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    Run& run_;
  };

  static bool IsGradient(const std::string& name) { return name.starts_with("d."); }

  // What the pass reads is there still.
  void CheckBound(bool backward) const {
    for (const ValueInfo& value : inputs_) {
      if ((IsGradient(value.name) && !backward) || bound_.contains(value.name)) continue;
      throw nb::value_error(("[run] '" + value.name + "' is not bound").c_str());
    }
  }

  Shape ShapeOf(const std::vector<ValueInfo>& values, const std::string& name, bool rows) const {
    for (const ValueInfo& value : values) {
      if (value.name != name) continue;
      Shape shape;
      if (rows) {
        shape.push_back(rows_);
      } else {
        if (value.rows == ValueRows::kStep) shape.push_back(steps_);
        if (value.rows != ValueRows::kNone) shape.push_back(batch_);
      }
      shape.insert(shape.end(), value.features.begin(), value.features.end());
      return shape;
    }
    std::string names;
    for (const ValueInfo& value : values) names += (names.empty() ? "" : ", ") + value.name;
    throw nb::value_error(("[run] there is no '" + name + "'; there are " + names).c_str());
  }

  template <typename Array>
  static void CheckShape(const std::string& what, const Array& array, const Shape& wanted) {
    bool right = array.ndim() == wanted.size();
    for (size_t i = 0; right && i < wanted.size(); ++i) {
      right = static_cast<int64_t>(array.shape(i)) == wanted[i];
    }
    if (right) return;
    std::string text;
    for (const int64_t n : wanted) text += (text.empty() ? "" : ", ") + std::to_string(n);
    text = "[" + what + "] got a " + Describe(array) + ", wants the shape [" + text + "]";
    throw nb::value_error(text.c_str());
  }

  std::unique_ptr<RecurrentRun> run_;
  std::vector<ValueInfo> inputs_, outputs_;
  std::map<std::string, Input> bound_;
  bool busy_ = false;  // guarded by the GIL
  int64_t steps_ = 0, batch_ = 0, rows_ = 0;
};

const char* NameOf(ValueRows rows) {
  switch (rows) {
    case ValueRows::kNone:
      return "parameter";
    case ValueRows::kBatch:
      return "batch";
    default:
      return "step";
  }
}

void BindDescriptions(nb::module_& module) {
  nb::class_<CellInfo>(module, "CellInfo", "A recurrent cell that networks can be made of.")
      .def_ro("name", &CellInfo::name)
      .def_ro("description", &CellInfo::description, "One line, with the source of the equations.")
      .def_ro("projects", &CellInfo::projects, "Whether it wants a projection size.")
      .def("__repr__", [](const CellInfo& cell) { return "<cell " + cell.name + ">"; });
  module.def("cells", &ListCells, "All cells, in the order in which they are listed for people.");

  nb::class_<ValueInfo>(module, "ValueInfo", "An input, output or parameter of a network.")
      .def_ro("name", &ValueInfo::name)
      .def_prop_ro(
          "rows", [](const ValueInfo& value) { return NameOf(value.rows); },
          "\"parameter\" [F..], \"batch\" [B, F] or \"step\" [T, B, F].")
      .def_prop_ro(
          "features", [](const ValueInfo& value) { return nb::tuple(nb::cast(value.features)); },
          "The axes F behind those of rows.")
      .def("__repr__", [](const ValueInfo& value) { return "<value " + value.name + ">"; });

  nb::class_<StateInfo>(module, "StateInfo", "A state of one layer and direction.")
      .def_ro("state", &StateInfo::state, "\"h\", \"c\"")
      .def_ro("initial", &StateInfo::initial, "The input that it begins with, where given.")
      .def_ro("final", &StateInfo::final, "The output that it ends with.")
      .def_ro("size", &StateInfo::size, "Elements of a sequence.");
}

void BindNetwork(nb::module_& module) {
  nb::class_<RecurrentNetwork>(
      module, "Network",
      "Recurrent layers of one cell, compiled once for every shape.\n\n"
      "Input \"x\" [T, B, I]; output \"y\" [T, B, D * (P or H)]; initial states \"h_0_l0\" [B, n]\n"
      "where given_states is true; final states \"h_n_l0\" [B, n]; parameters under PyTorch's\n"
      "names. gradients names what is differentiated by, cotangents the outputs whose gradients\n"
      "are given: the gradient of \"y\" is the input \"d.y\", that by \"x\" the output \"d.x\".\n"
      "precision: \"fp32\" or \"bf16\" inside; arrays are float32. threads: 0 for one a core.")
      .def(
          "__init__",
          [](RecurrentNetwork* self, const std::string& cell, int64_t input_size,
             int64_t hidden_size, int64_t num_layers, bool bias, bool bidirectional,
             int64_t proj_size, double dropout, double recurrent_dropout, double zoneout,
             std::optional<double> clip, bool coupled_gates, int64_t heads, int32_t delay,
             bool residual, const std::vector<bool>& reversed, bool given_states,
             const std::vector<std::string>& gradients, const std::vector<std::string>& cotangents,
             const std::string& precision, int threads) {
            const nb::gil_scoped_release release;
            RecurrentSpec spec;
            spec.cell = cell;
            spec.input = input_size;
            spec.hidden = hidden_size;
            spec.projection = proj_size;
            spec.heads = heads;
            spec.delay = delay;
            spec.bias = bias;
            spec.clip = clip;
            spec.coupled_gates = coupled_gates;
            spec.layers = num_layers;
            spec.bidirectional = bidirectional;
            spec.reversed = reversed;
            spec.residual = residual;
            spec.dropout = dropout;
            spec.zoneout = zoneout;
            spec.recurrent_dropout = recurrent_dropout;
            spec.given_states = given_states;
            new (self) RecurrentNetwork(spec, {gradients, cotangents, precision, threads});
          },
          "cell"_a, "input_size"_a, "hidden_size"_a, nb::kw_only(), "num_layers"_a = 1,
          "bias"_a = true, "bidirectional"_a = false, "proj_size"_a = 0, "dropout"_a = 0.0,
          "recurrent_dropout"_a = 0.0, "zoneout"_a = 0.0, "clip"_a = nb::none(),
          "coupled_gates"_a = false, "heads"_a = 1, "delay"_a = 2, "residual"_a = false,
          "reversed"_a = std::vector<bool>(), "given_states"_a = false,
          "gradients"_a = std::vector<std::string>(), "cotangents"_a = std::vector<std::string>(),
          "precision"_a = "fp32", "threads"_a = 0)
      .def_prop_ro("parameters", &RecurrentNetwork::parameters)
      .def_prop_ro("states", &RecurrentNetwork::states,
                   "By layer, direction (forward first) and state.")
      .def_prop_ro("inputs", &RecurrentNetwork::inputs, "All that has to be bound.")
      .def_prop_ro("outputs", &RecurrentNetwork::outputs)
      .def(
          "initial_values",
          [](const RecurrentNetwork& network, const std::string& parameter, uint64_t seed) {
            const std::vector<float> values = network.InitialValues(parameter, seed);
            Shape shape;
            for (const ValueInfo& value : network.parameters()) {
              if (value.name == parameter) shape = value.features;
            }
            auto* data = new std::vector<float>(values);
            const nb::capsule owner(
                data, [](void* p) noexcept { delete static_cast<std::vector<float>*>(p); });
            const std::vector<size_t> sizes(shape.begin(), shape.end());
            return nb::ndarray<nb::numpy, float>(data->data(), sizes.size(), sizes.data(), owner);
          },
          "parameter"_a, "seed"_a = 0,
          "Values to begin training with, drawn as the cell's source wants them.")
      .def(
          "run", [](const RecurrentNetwork& network) { return std::make_unique<Run>(network); },
          "Memory for one use of the network at a time.");
}

void BindRun(nb::module_& module) {
  nb::class_<Run>(
      module, "Run",
      "One use of a network: its memory, and what the forward pass keeps for the backward pass.\n\n"
      "Several runs of one network may be under way at once; a run is for one thread at a time.\n"
      "Arrays are float32, contiguous and on the CPU: numpy's, or any other through DLPack. They\n"
      "are read where they lie (inputs of ragged batches are copied once within a pass), and must\n"
      "not change before the passes that need them are done. Outputs are copied, since their\n"
      "memory is used again.")
      .def("set_shape", &Run::SetShape, "steps"_a, "batch"_a, "lengths"_a = nb::none(),
           "resets"_a = nb::none(),
           "T and B; lengths: int32 [B], each 0..T; resets: bool or uint8 [T, B], true where a\n"
           "sequence starts anew from zeros.")
      .def("bind", &Run::Bind, "name"_a, "array"_a, "rows"_a = false,
           "Gives an input or parameter. rows: of a \"step\" value [R, F], as the data of a\n"
           "PackedSequence: of each step the rows of the sequences that reach it, longest first.")
      .def("parameters_changed", &Run::ParametersChanged,
           "To be said when bound parameters hold new numbers.")
      .def("forward", &Run::Forward, "training"_a = false, "seed"_a = 0,
           "Runs the forward pass without holding the GIL. training: random masks are drawn from\n"
           "the seed, not replaced by their mean.")
      .def("backward", &Run::Backward,
           "Runs the backward pass, once after each forward pass, without holding the GIL.")
      .def("read_into", &Run::Read, "name"_a, "out"_a, "rows"_a = false,
           "Copies an output into a float32 array of its shape.")
      .def("output_shape", &Run::OutputShape, "name"_a, "rows"_a = false)
      .def("unbind", &Run::Unbind, "Lets go of all arrays; those wanted must be bound again.")
      .def_prop_ro("memory_bytes", &Run::MemoryBytes, "Beside what is bound.");
}

}  // namespace

void BindRecurrent(nb::module_& module) {
  BindDescriptions(module);
  BindNetwork(module);
  BindRun(module);
}

}  // namespace turbolstm
