#include "api/network_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "execution/device_lowering.h"
#include "execution/late_groups.h"
#include "execution/lent_buffers.h"
#include "execution/lent_execution.h"
#include "execution/memory_plan.h"
#include "turbolstm/device_network.h"

namespace turbolstm {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using Region = MemoryPlan::Region;

struct Case {
  std::string cell;
  int64_t layers = 1;
  bool bidirectional = false;
};

const std::vector<Case> kCases{{"lstm"},
                               {"gru"},
                               {"rnn_tanh"},
                               {"lstm", 2},
                               {"gru", 2, true},
                               {"lstm", 2, true},
                               {"indrnn"},
                               {"layer_norm_lstm"},
                               {"peephole_lstm", 1, true}};

LoweredGraph Lowered(const Case& c, BoundaryType boundary = BoundaryType::kOperand) {
  RecurrentSpec spec;
  spec.cell = c.cell;
  spec.input = spec.hidden = 16;
  spec.layers = c.layers;
  spec.bidirectional = c.bidirectional;
  spec.given_states = true;
  const NetworkGraph plain = BuildNetwork(spec, {}, {});
  std::vector<std::string> gradients{"x"};
  for (const ValueInfo& parameter : plain.parameters) gradients.push_back(parameter.name);
  for (const StateInfo& state : plain.states) gradients.push_back(state.initial);
  const std::vector<std::string> cotangents{"y", plain.states[0].final};
  NetworkGraph network = BuildNetwork(spec, gradients, cotangents);
  LoweredGraph lowered = LowerForDevice(std::move(network.graph), Precision::kBFloat16, boundary);
  PutLateGroupsLast(&lowered, network.late_inputs);
  return lowered;
}

std::set<int32_t> Touched(const LoweredGraph& graph, size_t begin, size_t end) {
  std::set<int32_t> touched;
  for (size_t g = begin; g < end; ++g) {
    for (const Stage& stage : graph.groups[g].stages) {
      for (const Operand& operand : stage.inputs) {
        touched.insert(operand.view.buffer);
        touched.insert(operand.init.buffer);
      }
      for (const View& output : stage.outputs) touched.insert(output.buffer);
      touched.insert(stage.bias.buffer);
      if (stage.weight >= 0) {
        touched.insert(graph.weights[static_cast<size_t>(stage.weight)].matrix.buffer);
      }
    }
  }
  touched.erase(-1);
  return touched;
}

TEST(LateGroups, StandBehindAllThatNeedsNoGradient) {
  for (const Case& c : kCases) {
    const LoweredGraph graph = Lowered(c);
    ASSERT_TRUE(graph.first_late) << c.cell;
    EXPECT_GT(*graph.first_late, 0U) << c.cell;
    EXPECT_LT(*graph.first_late, graph.groups.size()) << c.cell;
    const std::set<int32_t> early = Touched(graph, 0, *graph.first_late);
    for (const NamedView& input : graph.inputs) {
      EXPECT_FALSE(input.name.starts_with("d.") && early.contains(input.view.buffer)) << c.cell;
    }
    for (const NamedView& output : graph.outputs) {
      if (!output.name.starts_with("d.")) {
        EXPECT_TRUE(early.contains(output.view.buffer)) << c.cell << " " << output.name;
      }
    }
  }
}

TEST(LentBuffers, LieAtTheCallersWhereTheyHaveABufferForThemselves) {
  for (const Case& c : kCases) {
    const LoweredGraph graph = Lowered(c);
    const LentBuffers buffers = FindLentBuffers(graph);
    for (const NamedView& input : graph.inputs) {
      EXPECT_TRUE(buffers.lent[static_cast<size_t>(input.view.buffer)]) << c.cell << input.name;
    }
    for (size_t i = 0; i < graph.outputs.size(); ++i) {
      const NamedView& output = graph.outputs[i];
      EXPECT_EQ(buffers.late_outputs[i], output.name.starts_with("d.")) << c.cell << output.name;
      if (output.name == "d.x" || output.name == "d.weight_ih_l0") {
        EXPECT_TRUE(buffers.lent[static_cast<size_t>(output.view.buffer)]) << c.cell << output.name;
      }
    }
  }
}

TEST(LentMemory, KeepsFromTheForwardToTheBackwardPassWhatThatReads) {
  for (const Case& c : kCases) {
    const LoweredGraph graph = Lowered(c);
    const LentBuffers buffers = FindLentBuffers(graph);
    MemoryPlan plan(graph, buffers.lent);
    plan.SetShape(7, 5);
    const std::set<int32_t> early = Touched(graph, 0, *graph.first_late);
    const std::set<int32_t> late = Touched(graph, *graph.first_late, graph.groups.size());
    for (int32_t i = 0; i < static_cast<int32_t>(graph.buffers.size()); ++i) {
      if (plan.IsLent(i) || (!early.contains(i) && !late.contains(i))) continue;
      const Region wanted = !late.contains(i)   ? Region::kEarly
                            : early.contains(i) ? Region::kShared
                                                : Region::kLate;
      EXPECT_EQ(plan.region(i), wanted)
          << c.cell << " " << graph.buffers[static_cast<size_t>(i)].name;
    }
    EXPECT_GT(plan.region_bytes(Region::kShared), 0) << c.cell;
    const MemoryPlan whole(graph);
    EXPECT_EQ(whole.region_bytes(Region::kEarly) + whole.region_bytes(Region::kLate), 0);
  }
}

TEST(LentMemory, OfAForwardPassIsItsOwn) {
  RecurrentSpec spec{.input = 16, .hidden = 16};
  NetworkGraph network = BuildNetwork(spec, {}, {});
  LoweredGraph graph = LowerForDevice(std::move(network.graph), Precision::kFloat32);
  PutLateGroupsLast(&graph, network.late_inputs);
  const LentBuffers buffers = FindLentBuffers(graph);
  MemoryPlan plan(graph, buffers.lent);
  plan.SetShape(7, 5);
  EXPECT_EQ(plan.region_bytes(Region::kShared), 0);
  EXPECT_EQ(plan.region_bytes(Region::kLate), 0);
  EXPECT_GT(plan.region_bytes(Region::kEarly), 0);
}

TEST(LateGroups, SayWhichInputThereIsNot) {
  LoweredGraph graph = Lowered({"lstm"});
  const std::vector<std::string> names{"d.z"};
  EXPECT_THAT([&] { PutLateGroupsLast(&graph, names); },
              ThrowsMessage<Error>(HasSubstr("no input 'd.z'")));
}

TEST(DeviceNetwork, SaysWhatDoesNotFitBeforeItLooksForADevice) {
  EXPECT_THAT([] { const DeviceNetwork network({.cell = "lstn", .input = 3, .hidden = 4}); },
              ThrowsMessage<Error>(HasSubstr("there is no cell 'lstn'")));
}

}  // namespace
}  // namespace turbolstm
