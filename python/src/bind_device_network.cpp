#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>

#include "bind.h"
#include "turbolstm/device_network.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace turbolstm {
namespace {

using Addresses = std::vector<uintptr_t>;

const char* NameOf(NumberType type) {
  switch (type) {
    case NumberType::kBFloat16:
      return "bfloat16";
    case NumberType::kFloat16:
      return "float16";
    default:
      return "float32";
  }
}

template <typename T = void>
T* At(uintptr_t address) {
  return reinterpret_cast<T*>(address);
}

std::span<void* const> PointersOf(const Addresses& addresses) {
  static_assert(sizeof(uintptr_t) == sizeof(void*));
  return {reinterpret_cast<void* const*>(addresses.data()), addresses.size()};
}

// A pass of a network whose arguments are addresses on its device.
template <void (DeviceNetwork::*kPass)(const DevicePass&) const>
void RunPass(const DeviceNetwork& network, int64_t steps, int64_t batch, uintptr_t stream,
             uintptr_t kept, uintptr_t scratch, const Addresses& inputs, const Addresses& outputs,
             uintptr_t lengths, uintptr_t resets, uintptr_t numbers) {
  const nb::gil_scoped_release release;
  DevicePass pass;
  pass.shape = {steps, batch, lengths != 0, resets != 0};
  pass.stream = At(stream);
  pass.kept = At(kept);
  pass.scratch = At(scratch);
  pass.inputs = PointersOf(inputs);
  pass.outputs = PointersOf(outputs);
  pass.lengths = At<const int32_t>(lengths);
  pass.resets = At<const uint8_t>(resets);
  pass.numbers = At(numbers);
  (network.*kPass)(pass);
}

}  // namespace

void BindDeviceNetwork(nb::module_& module) {
  nb::class_<DeviceValueInfo>(module, "DeviceValueInfo",
                              "An input or output of a network on a device.")
      .def_prop_ro("name", [](const DeviceValueInfo& info) { return info.value.name; })
      .def_prop_ro(
          "features",
          [](const DeviceValueInfo& info) { return nb::tuple(nb::cast(info.value.features)); },
          "The axes behind those of rows.")
      .def_prop_ro(
          "type", [](const DeviceValueInfo& info) { return NameOf(info.type); },
          "\"float32\", \"bfloat16\" or \"float16\".")
      .def_ro("late", &DeviceValueInfo::late, "Whether it belongs to the backward pass.")
      .def_ro("reread", &DeviceValueInfo::reread,
              "Whether the backward pass reads this output of the forward pass.");

  nb::class_<DeviceNetwork>(
      module, "DeviceNetwork",
      "Recurrent layers on an NVIDIA GPU, in memory of the caller's: what turbolstm.torch is made\n"
      "of. Arguments of passes are addresses on the device, 0 for none, and nothing checks them.\n"
      "Work is enqueued on the stream, which may be recording; nothing waits for the device.")
      .def(
          "__init__",
          [](DeviceNetwork* self, const std::string& cell, int64_t input_size, int64_t hidden_size,
             int64_t num_layers, bool bias, bool bidirectional, int64_t proj_size, double dropout,
             double recurrent_dropout, double zoneout, std::optional<double> clip,
             bool coupled_gates, int64_t heads, int32_t delay, bool residual,
             const std::vector<bool>& reversed, bool given_states,
             const std::vector<std::string>& gradients, const std::vector<std::string>& cotangents,
             const std::string& precision, bool narrow_io, int device) {
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
            new (self) DeviceNetwork(spec, {gradients, cotangents, precision, narrow_io, device});
          },
          "cell"_a, "input_size"_a, "hidden_size"_a, nb::kw_only(), "num_layers"_a = 1,
          "bias"_a = true, "bidirectional"_a = false, "proj_size"_a = 0, "dropout"_a = 0.0,
          "recurrent_dropout"_a = 0.0, "zoneout"_a = 0.0, "clip"_a = nb::none(),
          "coupled_gates"_a = false, "heads"_a = 1, "delay"_a = 2, "residual"_a = false,
          "reversed"_a = std::vector<bool>(), "given_states"_a = false,
          "gradients"_a = std::vector<std::string>(), "cotangents"_a = std::vector<std::string>(),
          "precision"_a = "fp32", "narrow_io"_a = false, "device"_a = 0)
      .def_prop_ro("inputs", &DeviceNetwork::inputs, "All that a pass wants, parameters included.")
      .def_prop_ro("outputs", &DeviceNetwork::outputs)
      .def(
          "memory_needs",
          [](const DeviceNetwork& network, int64_t steps, int64_t batch, bool ragged, bool resets) {
            const DeviceMemoryNeeds needs = network.MemoryNeeds({steps, batch, ragged, resets});
            return std::tuple(needs.kept, needs.forward, needs.backward);
          },
          "steps"_a, "batch"_a, "ragged"_a = false, "resets"_a = false,
          "Bytes from the forward to the backward pass, while the one runs, while the other does.")
      .def("forward", &RunPass<&DeviceNetwork::Forward>, "steps"_a, "batch"_a, "stream"_a, "kept"_a,
           "scratch"_a, "inputs"_a, "outputs"_a, "lengths"_a = 0, "resets"_a = 0, "numbers"_a = 0,
           "lengths: int32 [B]. resets: uint8 [T, B], 2 where a sequence starts anew from zeros.\n"
           "numbers: uint64 seed, uint32 0, int32 1 to draw masks; 0: they are their mean.")
      .def("backward", &RunPass<&DeviceNetwork::Backward>, "steps"_a, "batch"_a, "stream"_a,
           "kept"_a, "scratch"_a, "inputs"_a, "outputs"_a, "lengths"_a = 0, "resets"_a = 0,
           "numbers"_a = 0,
           "Once after each forward pass, with the same arguments and the late inputs.");
}

}  // namespace turbolstm
