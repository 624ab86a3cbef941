// Sequences and values of sizes where others overflow, on an NVIDIA GPU: rows 19 and 21 of the list
// of faults reported to others.

#include <algorithm>
#include <map>

#include "backend/cuda/check_cuda.h"
#include "execution/gpu_runs.h"
#include "testing/dice.h"

namespace turbolstm {
namespace {

// Runs parts of one long batch.
class Parts {
 public:
  Parts(const Graph& graph, const DeviceOptions& device, int64_t steps, int64_t batch)
      : graph_(graph), batch_(batch), execution_(graph, device) {
    uint64_t seed = 1;
    for (const NamedView& input : execution_.lowered().inputs) {
      const int64_t rows = input.domain == Domain::kStep    ? steps * batch
                           : input.domain == Domain::kBatch ? batch
                                                            : 1;
      Dice dice(seed++);
      std::vector<float>& values = values_[input.name];
      for (int64_t i = 0; i < rows * input.view.width; ++i) {
        values.push_back(static_cast<float>(dice.Real(-0.1, 0.1)));
      }
    }
  }

  // Steps [begin, end), with `carried` bound in place of what the batch has.
  Outputs Run(int64_t begin, int64_t end, const Outputs& carried) {
    execution_.SetShape(end - begin, batch_);
    for (const NamedView& input : execution_.lowered().inputs) {
      std::span<const float> values = values_.at(input.name);
      if (carried.contains(input.name)) values = carried.at(input.name);
      if (input.domain == Domain::kStep) {
        const auto row = static_cast<size_t>(batch_ * input.view.width);
        values = values.subspan(static_cast<size_t>(begin) * row,
                                static_cast<size_t>(end - begin) * row);
      }
      execution_.Bind(input.name, values);
    }
    execution_.ParametersChanged();
    execution_.Run({.training = true});
    Outputs outputs;
    for (const auto& [name, id] : graph_.outputs()) {
      const std::span<const float> values = execution_.Output(name);
      outputs[name] = {values.begin(), values.end()};
    }
    return outputs;
  }

 private:
  const Graph& graph_;
  int64_t batch_;
  cuda::CudaExecutable execution_;
  std::map<std::string, std::vector<float>> values_;
};

// Final states bound as initial ones.
Outputs CarriedFrom(const Outputs& outputs) {
  Outputs carried;
  for (const auto& [name, values] : outputs) {
    if (name.starts_with("rnn.") && name.find("_n_l") != name.npos) {
      carried[InitialOf(name)] = values;
    }
  }
  return carried;
}

// Gradients of initial states bound as cotangents of the final ones.
Outputs CarriedBack(const Outputs& outputs) {
  Outputs carried;
  for (const auto& [name, values] : outputs) {
    if (!name.starts_with("rnn.") || name.find("_n_l") == name.npos) continue;
    carried["cotangent." + name] = outputs.at("d." + InitialOf(name));
  }
  return carried;
}

class GpuLongSequence : public GpuTest {};

// Row 19. In fp32, whose loops are two kernels a step, one layer.
TEST_P(GpuLongSequence, EqualsTwoHalves) {
  constexpr int64_t kSteps = 65536;
  constexpr int64_t kRows = 2;
  RecurrentOptions options = OptionsOf(4, 128);
  options.layers = GetParam().precision == Precision::kFloat32 ? 1 : 3;
  options.initial = InitialState::kGiven;
  const Graph graph = WithGradients(RecurrentGraph(options));
  Parts parts(graph, device(), kSteps, kRows);
  const Outputs whole = parts.Run(0, kSteps, {});
  const Outputs start = parts.Run(0, kSteps / 2, {});
  const Outputs second = parts.Run(kSteps / 2, kSteps, CarriedFrom(start));
  const Outputs first = parts.Run(0, kSteps / 2, CarriedBack(second));
  const double allowed = std::max(tolerance(), kLongSumTolerance);
  for (const auto& [name, id] : graph.outputs()) {
    const Domain domain = graph.node(id).domain;
    if (domain == Domain::kStep) {
      std::vector<double> joined(first.at(name).begin(), first.at(name).end());
      joined.insert(joined.end(), second.at(name).begin(), second.at(name).end());
      EXPECT_EQ(Difference(name, joined, whole.at(name), allowed), "");
    } else if (domain == Domain::kStatic) {
      std::vector<double> sum;
      for (size_t i = 0; i < whole.at(name).size(); ++i) {
        sum.push_back(double{first.at(name)[i]} + second.at(name)[i]);
      }
      EXPECT_EQ(Difference(name, sum, whole.at(name), allowed), "");
    } else {
      const std::vector<float>& wanted = name.starts_with("d.") ? first.at(name) : second.at(name);
      EXPECT_EQ(Difference(name, {wanted.begin(), wanted.end()}, whole.at(name), allowed), "");
    }
  }
}

// --- Row 21: values of 2^31 elements and more, bf16.

constexpr int64_t kInput = 8;

// The row of sequence b at step t: held exactly by 16 bits, and other than its neighbours.
void FillRow(int64_t t, int64_t b, int64_t width, float* row) {
  constexpr int64_t kPeriod = 61;
  int64_t k = (t * 131 + b * 17) % kPeriod;
  for (int64_t i = 0; i < width; ++i) {
    row[i] = static_cast<float>(k) / 32 - 1;
    k += 7;
    if (k >= kPeriod) k -= kPeriod;
  }
}

// What is bound: of a batch of `batch` sequences those from `first` on.
class Huge {
 public:
  Huge(const Graph& graph, int64_t steps, int64_t first, int64_t batch)
      : steps_(steps), batch_(batch), execution_(graph, {0, Precision::kBFloat16}) {
    execution_.SetShape(steps, batch);
    uint64_t seed = 1;
    for (const NamedView& input : execution_.lowered().inputs) {
      std::vector<float>& values = values_[input.name];
      if (input.domain == Domain::kStatic) {
        Dice dice(seed++);
        for (int64_t i = 0; i < input.view.width; ++i) {
          values.push_back(static_cast<float>(dice.Real(-0.08, 0.08)));
        }
      } else {
        FillRows(input, first, &values);
      }
      execution_.Bind(input.name, values);
    }
    execution_.Run({.training = true});
    execution_.Synchronize();
    values_.clear();
  }

  // [steps, width] of sequence b, read without the others.
  std::vector<float> Row(const std::string& name, int64_t b) {
    int64_t width = 0;
    for (const NamedView& output : execution_.lowered().outputs) {
      if (output.name == name) width = output.view.width;
    }
    std::vector<float> row(static_cast<size_t>(steps_ * width));
    const size_t bytes = static_cast<size_t>(width) * sizeof(float);
    TL_CUDA_CHECK(cudaMemcpy2D(row.data(), bytes, execution_.DeviceOutput(name) + b * width,
                               bytes * static_cast<size_t>(batch_), bytes,
                               static_cast<size_t>(steps_), cudaMemcpyDeviceToHost));
    return row;
  }

 private:
  void FillRows(const NamedView& input, int64_t first, std::vector<float>* values) const {
    const int64_t rows = input.domain == Domain::kStep ? steps_ : 1;
    values->resize(static_cast<size_t>(rows * batch_ * input.view.width));
    for (int64_t row = 0; row < rows * batch_; ++row) {
      FillRow(row / batch_, first + row % batch_, input.view.width,
              values->data() + row * input.view.width);
    }
  }

  int64_t steps_;
  int64_t batch_;
  cuda::CudaExecutable execution_;
  std::map<std::string, std::vector<float>> values_;
};

class GpuHugeValues : public GpuTest {
 protected:
  // The graph of y alone; with gradients of x and the parameters on demand.
  void CheckLastRow(int64_t steps, bool gradients, const std::vector<std::string>& names) {
    constexpr int64_t kBatch = 128;
    size_t free = 0, total = 0;
    TL_CUDA_CHECK(cudaMemGetInfo(&free, &total));
    if (free < (size_t{100} << 30)) GTEST_SKIP() << "wants 100 GiB of free device memory";
    Graph graph;
    {
      Model model;
      const Value x = model.builder().Input("x", Domain::kStep, {kInput});
      model.graph().AddOutput("y", Recurrent(model, "rnn", x, OptionsOf(kInput, 256)).output.id());
      graph = gradients ? WithGradients(model.graph()) : model.graph();
    }
    std::map<std::string, std::vector<float>> wanted, got;
    {
      Huge one(graph, steps, kBatch - 1, 1);
      for (const std::string& name : names) wanted[name] = one.Row(name, 0);
    }
    Huge all(graph, steps, 0, kBatch);
    for (const std::string& name : names) got[name] = all.Row(name, kBatch - 1);
    EXPECT_EQ(Differences(wanted, got, tolerance()), "");
    const std::vector<float>& first = wanted.at(names[0]);
    EXPECT_TRUE(std::any_of(first.end() - 256, first.end(), [](float v) { return v != 0; }));
  }
};

TEST_P(GpuHugeValues, TheLastRowOfAForwardPassEqualsItsOwnRun) {
  CheckLastRow(65536, false, {"y"});
}

// Here it is the gates, of 4 or 3 * 256 elements a row, that have more than 2^31.
TEST_P(GpuHugeValues, TheLastRowOfABackwardPassEqualsItsOwnRun) {
  CheckLastRow(24576, true, {"y", "d.x"});
}

const auto kName = [](const auto& param) { return NameOf(param.param); };
INSTANTIATE_TEST_SUITE_P(Lstm, GpuLongSequence,
                         ::testing::ValuesIn(GpuCases({"lstm"},
                                                      {Precision::kFloat32, Precision::kTf32,
                                                       Precision::kBFloat16})),
                         kName);
INSTANTIATE_TEST_SUITE_P(Cells, GpuHugeValues,
                         ::testing::ValuesIn(GpuCases({"lstm", "gru"}, {Precision::kBFloat16})),
                         kName);

}  // namespace
}  // namespace turbolstm
