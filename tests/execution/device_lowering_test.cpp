// What is lowered for a device gives on the CPU what the interpreter gives: states that are kept in
// 16 bits, values that are computed again.

#include "execution/device_lowering.h"

#include <gtest/gtest.h>

#include <string>

#include "graph/passes/lower_transforms.h"
#include "nn/recurrent.h"
#include "plan/comparison.h"
#include "plan/recurrent_graphs.h"
#include "testing/random_bindings.h"

namespace turbolstm {
namespace {

// Layers over "x" with the output "y" alone, and gradients: nobody asks for last states.
Graph TrainedForOutput(const std::string& cell) {
  RecurrentOptions options = SmallOptions(cell);
  options.layers = 2;
  options.bidirectional = true;
  Model model;
  const Value x = model.builder().Input("x", Domain::kStep, {options.size.input});
  model.graph().AddOutput("y", Recurrent(model, "rnn", x, options).output.id());
  LowerTransforms(&model.graph());
  return WithGradients(model.graph());
}

// What is lowered for a device, with what the CPU runs programs by.
LoweredGraph LoweredForBoth(const Graph& graph, Precision precision) {
  LoweredGraph lowered = LowerForDevice(graph, precision);
  for (Group& group : lowered.groups) {
    for (Stage& stage : group.stages) {
      const bool program = stage.kind == Stage::Kind::kPointwise;
      if (program && !stage.kernel) stage.kernel = CompilePointwise(stage.program);
    }
  }
  return lowered;
}

class DeviceLowering : public ::testing::TestWithParam<std::string> {};

TEST_P(DeviceLowering, GivesWhatTheInterpreterGives) {
  const Graph graph = TrainedForOutput(GetParam());
  for (const Precision precision : {Precision::kFloat32, Precision::kBFloat16}) {
    for (const double resets : {0.0, 0.2}) {
      const Bindings bindings =
          RandomBindings(graph, 6, {.steps = 9, .batch = 6, .ragged = true, .resets = resets});
      Executable executable(LoweredForBoth(graph, precision),
                            {.precision = precision, .streams = 1});
      const double tolerance =
          precision == Precision::kFloat32 ? kFloat32Tolerance : kBFloat16Tolerance;
      EXPECT_EQ(Differences(graph, bindings, RunAndRead(&executable, bindings), tolerance), "")
          << Name(precision) << ", resets " << resets;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cells, DeviceLowering, ::testing::ValuesIn(CellNames()),
                         [](const auto& param) { return param.param; });

// Of LSTM's loop the backward pass reads six values a unit: four gates, h and c, all in 16 bits.
TEST(DeviceLoweringOfLstm, KeepsSixValuesAUnit) {
  const LoweredGraph lowered = LowerForDevice(TrainedForOutput("lstm"), Precision::kBFloat16);
  int64_t kept = 0;
  for (const Buffer& buffer : lowered.buffers) {
    const bool forward = buffer.name.starts_with("rnn.c_l0") || buffer.name.starts_with("rnn.o_l0");
    if (!forward || buffer.name.find("reverse") != buffer.name.npos || buffer.ring > 0) continue;
    EXPECT_EQ(buffer.dtype, DType::kBFloat16) << buffer.name;
    ++kept;
  }
  EXPECT_EQ(kept, 1) << "c; no tanh of it";
}

}  // namespace
}  // namespace turbolstm
