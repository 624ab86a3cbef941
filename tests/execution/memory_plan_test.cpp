// What a training step takes of a device's memory, found without a device.

#include "execution/memory_plan.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "execution/device_lowering.h"
#include "execution/split_choice.h"
#include "execution/turns.h"
#include "graph/autodiff.h"
#include "nn/recurrent.h"
#include "ops/matmul/product_workspace.h"
#include "train/model_factory.h"

namespace turbolstm {
namespace {

constexpr double kMebibyte = 1 << 20;

RecurrentOptions Layer(const std::string& cell, int64_t size) {
  RecurrentOptions options;
  options.cell = cell;
  options.size.input = options.size.hidden = size;
  return options;
}

// Layers as the benchmarks train them: x to y, dy to the gradients of x and of every parameter.
Graph Trained(const RecurrentOptions& options) {
  Model model;
  const Value x = model.builder().Input("x", Domain::kStep, {options.size.input});
  const Value y = Recurrent(model, "rnn", x, options).output;
  Graph& graph = model.graph();
  graph.AddOutput("y", y.id());
  const Value dy = model.builder().Input("dy", Domain::kStep,
                                         {options.size.hidden * (options.bidirectional ? 2 : 1)});
  std::vector<NodeId> wrt = {x.id()};
  for (const ParameterSpec& spec : model.parameters()) wrt.push_back(graph.Find(spec.name));
  const std::vector<NodeId> gradients = Gradients(&graph, {{y.id(), dy.id()}}, wrt);
  for (size_t i = 0; i < wrt.size(); ++i) {
    graph.AddOutput("gradient." + graph.node(wrt[i]).name, gradients[i]);
  }
  return graph;
}

// Bytes of memory for each of T * B * H more.
double BytesPerElement(const std::string& cell, BoundaryType boundary) {
  constexpr int64_t kHidden = 64;
  const LoweredGraph lowered =
      LowerForDevice(Trained(Layer(cell, kHidden)), Precision::kBFloat16, boundary);
  MemoryPlan plan(lowered);
  plan.SetShape(100, 64);
  const int64_t once = plan.bytes();
  plan.SetShape(200, 64);
  return static_cast<double>(plan.bytes() - once) / (100 * 64 * kHidden);
}

TEST(MemoryPlan, BytesOfAnElementAreCounted) {
  struct Wanted {
    std::string cell;
    double fp32, half;
  };
  for (const Wanted& wanted :
       {Wanted{"lstm", 28, 16}, Wanted{"gru", 28, 18}, Wanted{"rnn_tanh", 22, 10}}) {
    const double fp32 = BytesPerElement(wanted.cell, BoundaryType::kFloat32);
    const double half = BytesPerElement(wanted.cell, BoundaryType::kOperand);
    fmt::print("{}: {:.1f} bytes per T*B*H, {:.1f} with 16-bit inputs and outputs\n", wanted.cell,
               fp32, half);
    EXPECT_NEAR(fp32, wanted.fp32, 0.1) << wanted.cell;
    EXPECT_NEAR(half, wanted.half, 0.1) << wanted.cell;
  }
}

// Measured on an H200 with cuDNN 9.19, STANDARD in bf16 and fp16, T = 256
// (benchmarks/results/rnn-gpu-20261201.csv): inputs, outputs, weights, their gradients, reserve and
// workspace. Its other algorithms take more.
struct OfCudnn {
  int64_t hidden, batch;
  double mebibytes;
};
constexpr OfCudnn kCudnn[] = {{256, 16, 37.055},  {256, 64, 115.2},   {256, 256, 427.76},
                              {512, 16, 72.11},   {512, 64, 228.39},  {512, 256, 853.52},
                              {1024, 16, 160.22}, {1024, 64, 472.78}, {1024, 256, 1723.0}};
// Signals between blocks, lengths, sums over rows.
constexpr double kRestMebibytes = 1;

TEST(MemoryPlan, TrainingStepTakesLessThanCudnns) {
  for (const Precision precision : {Precision::kBFloat16, Precision::kFloat16}) {
    for (const OfCudnn& cudnn : kCudnn) {
      const LoweredGraph lowered =
          LowerForDevice(Trained(Layer("lstm", cudnn.hidden)), precision, BoundaryType::kOperand);
      MemoryPlan plan(lowered);
      plan.SetShape(256, cudnn.batch);
      const double ours = static_cast<double>(plan.bytes()) / kMebibyte;
      const double workspace = static_cast<double>(plan.ProductWorkspaceBytes()) / kMebibyte;
      fmt::print(
          "lstm {} H {} B {}: predicted peak {:.1f} MiB and at most {:.1f} for products, "
          "cuDNN {:.1f}\n",
          Name(precision), cudnn.hidden, cudnn.batch, ours, workspace, cudnn.mebibytes);
      EXPECT_LT(ours + workspace + kRestMebibytes, cudnn.mebibytes)
          << "H " << cudnn.hidden << ", B " << cudnn.batch;
    }
  }
}

// Shapes at which cuDNN keeps less than padded rows would want (lengths uniform in 1 to T), or
// where there is little beside what is kept: its reserve, workspace and outputs in bf16, STANDARD,
// from the same file. What we are given (x, dy and the parameters) is left out of ours, as theirs
// is.
struct KeptByCudnn {
  std::string cell;
  int64_t steps, batch, input, hidden, layers;
  bool bidirectional;
  double mebibytes;
};
const KeptByCudnn kKeptByCudnn[] = {
    {"lstm", 400, 64, 128, 128, 1, false, 68.1},   {"lstm", 400, 64, 128, 256, 1, false, 110.0},
    {"lstm", 400, 64, 128, 512, 1, false, 195.3},  {"lstm", 400, 64, 128, 256, 2, true, 324.6},
    {"gru", 400, 64, 128, 256, 1, false, 115.7},   {"lstm", 400, 256, 96, 96, 5, false, 672.1},
    {"lstm", 128, 1, 2048, 2048, 1, false, 141.6}, {"lstm", 50, 8, 1536, 1536, 1, false, 93.0}};

TEST(MemoryPlan, WhatAStepKeepsIsLessThanCudnns) {
  for (const KeptByCudnn& cudnn : kKeptByCudnn) {
    RecurrentOptions options = Layer(cudnn.cell, cudnn.hidden);
    options.size.input = cudnn.input;
    options.layers = cudnn.layers;
    options.bidirectional = cudnn.bidirectional;
    const LoweredGraph lowered =
        LowerForDevice(Trained(options), Precision::kBFloat16, BoundaryType::kOperand);
    MemoryPlan plan(lowered);
    plan.SetShape(cudnn.steps, cudnn.batch);
    int64_t given = plan.parameter_bytes();
    for (const NamedView& input : lowered.inputs) {
      if (input.domain != Domain::kStep) continue;
      given += cudnn.steps * cudnn.batch * input.view.width * 2;
    }
    const double ours = static_cast<double>(plan.bytes() - given) / kMebibyte;
    const double workspace = static_cast<double>(plan.ProductWorkspaceBytes()) / kMebibyte;
    fmt::print(
        "{} T {} B {} H {} L {}: kept {:.1f} MiB and at most {:.1f} for products, cuDNN {:.1f}\n",
        cudnn.cell, cudnn.steps, cudnn.batch, cudnn.hidden, cudnn.layers, ours, workspace,
        cudnn.mebibytes);
    EXPECT_LT(ours + workspace + kRestMebibytes, cudnn.mebibytes)
        << cudnn.cell << ", H " << cudnn.hidden << ", L " << cudnn.layers;
  }
}

// Words, activations between layers, their gradients and what is kept of states live once, in 16
// bits; of what is carried in fp32 there are a few steps only, and single columns.
TEST(MemoryPlan, ModelKeepsStepsInHalf) {
  ModelConfig config;
  config.layers = 2;
  config.pooling = "mean";
  const auto model = MakeClassifier(config, 1000, 2);
  const LoweredGraph lowered =
      LowerForDevice(WithLossGradients(*model, LossScaling::kScaled), Precision::kFloat16);
  std::set<std::string> wide;
  for (const Buffer& buffer : lowered.buffers) {
    const bool whole = buffer.domain == Domain::kStep && buffer.ring == 0 && !buffer.local;
    if (whole && buffer.dtype == DType::kFloat32 && buffer.width > 1) wide.insert(buffer.name);
    const bool state = buffer.name.starts_with("lstm.c_");
    EXPECT_TRUE(!whole || state || !buffer.name.ends_with("narrow")) << buffer.name;
  }
  EXPECT_EQ(wide, (std::set<std::string>{}));
}

// Whatever a stage touches must have a place of its own while any of the same turn or a later one
// still needs it.
class PlacesOfBuffers : public ::testing::TestWithParam<std::tuple<std::string, bool>> {
 protected:
  static constexpr int64_t kSteps = 9;
  static constexpr int64_t kBatch = 5;

  struct Life {
    int64_t first = std::numeric_limits<int64_t>::max(), last = -1;  // turns

    bool Meets(const Life& other) const { return first <= other.last && other.first <= last; }
  };

  static std::vector<Life> LivesOf(const LoweredGraph& graph) {
    std::vector<Life> lives(graph.buffers.size());
    const auto touch = [&](const View& view, int64_t turn) {
      if (view.buffer < 0) return;
      Life& life = lives[static_cast<size_t>(view.buffer)];
      life.first = std::min(life.first, turn);
      life.last = std::max(life.last, turn);
    };
    const std::vector<int64_t> turns = Turns(graph);
    for (size_t g = 0; g < graph.groups.size(); ++g) {
      for (const Stage& stage : graph.groups[g].stages) {
        for (const Operand& operand : stage.inputs) touch(operand.view, turns[g]);
        for (const View& output : stage.outputs) touch(output, turns[g]);
      }
    }
    const int64_t end = turns.back() + 1;
    for (const NamedView& input : graph.inputs) {
      touch(input.view, 0);
      touch(input.view, end);
    }
    for (const NamedView& output : graph.outputs) touch(output.view, end);
    return lives;
  }

  static int64_t BytesOf(const Buffer& buffer) {
    const int64_t rows = buffer.domain == Domain::kStatic  ? 1
                         : buffer.domain == Domain::kBatch ? kBatch
                         : buffer.ring > 0                 ? kBatch * buffer.ring
                                                           : kBatch * kSteps;
    return rows * buffer.width * static_cast<int64_t>(SizeOf(buffer.dtype));
  }
};

TEST_P(PlacesOfBuffers, LieApartWhereBuffersAreNeededAtOnce) {
  const auto& [cell, bidirectional] = GetParam();
  RecurrentOptions options = Layer(cell, 24);
  options.layers = 2;
  options.bidirectional = bidirectional;
  const LoweredGraph lowered =
      LowerForDevice(Trained(options), Precision::kBFloat16, BoundaryType::kOperand);
  MemoryPlan plan(lowered);
  plan.SetShape(kSteps, kBatch);
  const std::vector<Life> lives = LivesOf(lowered);
  const auto end_of = [&](int32_t id) {
    return plan.offset(id) + BytesOf(lowered.buffers[static_cast<size_t>(id)]);
  };
  for (int32_t a = 0; a < std::ssize(lowered.buffers); ++a) {
    for (int32_t b = 0; b < a; ++b) {
      if (plan.IsParameter(a) || plan.IsParameter(b)) continue;
      if (!lives[static_cast<size_t>(a)].Meets(lives[static_cast<size_t>(b)])) continue;
      EXPECT_TRUE(end_of(a) <= plan.offset(b) || end_of(b) <= plan.offset(a))
          << lowered.buffers[static_cast<size_t>(a)].name << " and "
          << lowered.buffers[static_cast<size_t>(b)].name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cells, PlacesOfBuffers,
                         ::testing::Combine(::testing::Values("lstm", "gru", "peephole_lstm"),
                                            ::testing::Bool()));

// Groups that take turns, some rows at once: all that they touch must be there at the same time.
TEST(MemoryPlan, WhatTakesTurnsLiesApart) {
  RecurrentOptions options = Layer("lstm", 24);
  options.layers = 2;
  options.bidirectional = true;
  const LoweredGraph lowered =
      LowerForDevice(Trained(options), Precision::kBf16x6, BoundaryType::kOperand);
  constexpr int64_t kSteps = 9, kBatch = 5;
  MemoryPlan plan(lowered);
  plan.SetShape(kSteps, kBatch);
  const std::vector<size_t> ends = EndsOfSplitRuns(lowered);
  int runs = 0;
  for (size_t first = 0; first < ends.size(); ++first) {
    std::set<int32_t> touched;
    for (size_t g = first; g < ends[first]; ++g) {
      const Stage& stage = lowered.groups[g].stages[0];
      for (const Operand& operand : stage.inputs) touched.insert(operand.view.buffer);
      for (const View& output : stage.outputs) touched.insert(output.buffer);
    }
    runs += ends[first] > first + 1 ? 1 : 0;
    const auto end_of = [&](int32_t id) {
      const Buffer& buffer = lowered.buffers[static_cast<size_t>(id)];
      const int64_t rows = buffer.domain == Domain::kStep ? kSteps * kBatch : 1;
      return plan.offset(id) + rows * buffer.width * static_cast<int64_t>(SizeOf(buffer.dtype));
    };
    for (const int32_t a : touched) {
      for (const int32_t b : touched) {
        if (a >= b || plan.IsParameter(a) || plan.IsParameter(b)) continue;
        EXPECT_TRUE(end_of(a) <= plan.offset(b) || end_of(b) <= plan.offset(a))
            << lowered.buffers[static_cast<size_t>(a)].name << " and "
            << lowered.buffers[static_cast<size_t>(b)].name;
      }
    }
  }
  EXPECT_GE(runs, 4) << "gradients of the weights of each layer and direction";
}

TEST(ProductWorkspace, IsAPartOfTheProductWithinBounds) {
  constexpr DType kHalf = DType::kBFloat16;
  EXPECT_EQ(MostWorkspaceBytes(0, kHalf), kSmallWorkspaceBytes);
  EXPECT_EQ(MostWorkspaceBytes(kSmallWorkspaceBytes, kHalf), kSmallWorkspaceBytes);
  EXPECT_EQ(MostWorkspaceBytes(int64_t{128} << 20, kHalf), int64_t{16} << 20);
  EXPECT_EQ(MostWorkspaceBytes(int64_t{1} << 40, kHalf), kLargeWorkspaceBytes);
  EXPECT_EQ(MostWorkspaceBytes(0, DType::kFloat32), kLargeWorkspaceBytes);
}

}  // namespace
}  // namespace turbolstm
