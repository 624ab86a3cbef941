#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "execution/executable_cuda.h"
#include "execution/gpu_tolerance.h"
#include "kernels/cell_kernels.h"
#include "plan/recurrent_graphs.h"
#include "testing/random_bindings.h"

namespace turbolstm {

struct GpuCase {
  std::string cell;
  Precision precision = Precision::kFloat32;
};

inline std::string NameOf(const GpuCase& c) {
  return c.cell + "_" + std::string(Name(c.precision));
}
// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest finds it by this name.
inline void PrintTo(const GpuCase& c, std::ostream* out) {
  *out << NameOf(c);
}

// Every cell named in every precision named.
inline std::vector<GpuCase> GpuCases(const std::vector<std::string>& cells,
                                     const std::vector<Precision>& precisions = {
                                         kPrecisions.begin(), kPrecisions.end()}) {
  std::vector<GpuCase> cases;
  for (const std::string& cell : cells) {
    for (const Precision precision : precisions) cases.push_back({cell, precision});
  }
  return cases;
}

// Tests of one cell in one precision; skipped where no GPU answers. The kernels of the built-in
// cells are those compiled ahead of time.
class GpuTest : public ::testing::TestWithParam<GpuCase> {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_GPU();
    RegisterCellKernels();
    RegisterDeviceCellKernels();
  }

  DeviceOptions device() const { return {.index = 0, .precision = GetParam().precision}; }
  double tolerance() const { return GpuTolerance(GetParam().precision, GetParam().cell); }

  RecurrentOptions OptionsOf(int64_t input, int64_t hidden) const {
    RecurrentOptions options;
    options.cell = GetParam().cell;
    options.size.input = input;
    options.size.hidden = hidden;
    return options;
  }

  // Two bidirectional layers with given initial states, and all gradients.
  Graph TrainingGraph() const {
    RecurrentOptions options = OptionsOf(5, 16);
    options.layers = 2;
    options.bidirectional = true;
    options.initial = InitialState::kGiven;
    return WithGradients(RecurrentGraph(options));
  }

  // The outputs of two runs, which must have the same bits.
  static Outputs RunTwice(Execution* execution, const Bindings& bindings) {
    Outputs first = RunAndRead(execution, bindings);
    EXPECT_TRUE(RunAndRead(execution, bindings) == first) << "the same run twice";
    return first;
  }
};

// What differs from another device's outputs beyond the tolerance; empty when nothing does.
inline std::string Differences(const Outputs& wanted, const Outputs& got, double tolerance) {
  std::string text;
  for (const auto& [name, values] : wanted) {
    text += Difference(name, {values.begin(), values.end()}, got.at(name), tolerance);
  }
  return text;
}

// "rnn.h_0_l1" for "rnn.h_n_l1".
inline std::string InitialOf(std::string final_state) {
  return final_state.replace(final_state.find("_n_l"), 2, "_0");
}

}  // namespace turbolstm
