// Whatever a device runs reads only columns that something wrote before, for every built-in cell.
// Rows need no look: a stage writes all rows of its steps, padded ones with zeros.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "execution/device_lowering.h"
#include "plan/recurrent_graphs.h"
#include "train/model_factory.h"

namespace turbolstm {
namespace {

// Follows a lowered graph in the order in which it runs.
class Follower {
 public:
  explicit Follower(const LoweredGraph& graph) : graph_(graph) {
    for (const Buffer& buffer : graph.buffers) {
      written_.emplace_back(static_cast<size_t>(buffer.width), false);
    }
    for (const NamedView& input : graph.inputs) Write(input.view);
  }

  // A line for each read of something that was not written.
  std::string Findings() {
    for (const Group& group : graph_.groups) {
      if (group.is_loop()) {
        CheckLoop(group);
      } else {
        for (const Stage& stage : group.stages) CheckStage(stage, false);
      }
    }
    for (const NamedView& output : graph_.outputs) Read(output.view, "the caller, " + output.name);
    return findings_;
  }

 private:
  void Write(const View& view) {
    std::vector<bool>& columns = written_[static_cast<size_t>(view.buffer)];
    std::fill_n(columns.begin() + view.column, view.width, true);
  }

  void Read(const View& view, const std::string& reader) {
    if (view.buffer < 0) return;
    const std::vector<bool>& columns = written_[static_cast<size_t>(view.buffer)];
    const auto begin = columns.begin() + view.column;
    if (std::find(begin, begin + view.width, false) == begin + view.width) return;
    findings_ += fmt::format("{} reads '{}' [{}, {}) before all of it is written\n", reader,
                             graph_.buffers[static_cast<size_t>(view.buffer)].name, view.column,
                             view.column + view.width);
  }

  // In a loop what is read with a delay was written at another step, which is looked at last.
  void CheckStage(const Stage& stage, bool in_loop) {
    for (const Operand& operand : stage.inputs) {
      if (!in_loop || operand.delay == 0) Read(operand.view, stage.name);
      Read(operand.init, stage.name);
    }
    Read(stage.bias, stage.name);
    if (stage.weight >= 0) {
      Read(graph_.weights[static_cast<size_t>(stage.weight)].matrix, stage.name);
    }
    for (const View& output : stage.outputs) {
      if (stage.accumulate) Read(output, stage.name);
      Write(output);
    }
  }

  void CheckLoop(const Group& group) {
    for (const Stage& stage : group.stages) CheckStage(stage, true);
    for (const Stage& stage : group.stages) {
      for (const Operand& operand : stage.inputs) Read(operand.view, stage.name);
    }
  }

  const LoweredGraph& graph_;
  std::vector<std::vector<bool>> written_;  // by buffer and column
  std::string findings_;
};

Graph TrainingGraph(const std::string& cell) {
  RecurrentOptions options = SmallOptions(cell);
  options.layers = 2;
  options.bidirectional = true;
  options.initial = InitialState::kGiven;
  options.dropout = 0.3;
  return WithGradients(RecurrentGraph(options));
}

class WrittenBeforeRead : public ::testing::TestWithParam<std::string> {};

TEST_P(WrittenBeforeRead, InEveryPrecision) {
  for (const Precision precision : kPrecisions) {
    for (const BoundaryType boundary : {BoundaryType::kFloat32, BoundaryType::kOperand}) {
      const LoweredGraph lowered = LowerForDevice(TrainingGraph(GetParam()), precision, boundary);
      EXPECT_EQ(Follower(lowered).Findings(), "")
          << Name(precision) << ", boundary " << static_cast<int>(boundary);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cells, WrittenBeforeRead, ::testing::ValuesIn(CellNames()),
                         [](const auto& param) { return param.param; });

TEST(WrittenBeforeReadInTraining, InEveryPrecision) {
  for (const char* pooling : {"last", "mean", "max"}) {
    ModelConfig config;
    config.pooling = pooling;
    config.layers = 2;
    config.dropout = 0.3;
    const auto model = MakeClassifier(config, 100, 2);
    for (const Precision precision : kPrecisions) {
      const LossScaling scaling =
          precision == Precision::kFloat16 ? LossScaling::kScaled : LossScaling::kNone;
      const LoweredGraph lowered = LowerForDevice(WithLossGradients(*model, scaling), precision);
      EXPECT_EQ(Follower(lowered).Findings(), "") << pooling << " " << Name(precision);
    }
  }
}

TEST(WrittenBeforeReadItself, FindsWhatRunsTooEarly) {
  LoweredGraph lowered = LowerForDevice(TrainingGraph("lstm"), Precision::kBFloat16);
  std::reverse(lowered.groups.begin(), lowered.groups.end());
  EXPECT_NE(Follower(lowered).Findings(), "");
}

}  // namespace
}  // namespace turbolstm
