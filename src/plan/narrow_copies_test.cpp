#include "plan/narrow_copies.h"

#include <gtest/gtest.h>

#include <set>
#include <tuple>

#include "base/error.h"
#include "cells/cell.h"
#include "graph/autodiff.h"
#include "graph/builder.h"
#include "plan/lowering.h"
#include "plan/named_views.h"

namespace turbolstm {
namespace {

// A cell with given initial states, its output, and the gradients of its parameters and input.
Graph TrainedCell(const Cell& cell) {
  Graph graph;
  Builder builder(&graph);
  const Value x = builder.Input("x", Domain::kStep, {5});
  CellPlace place;
  place.initial = [&](const std::string& state, int64_t n) {
    return builder.Input(state + "_0", Domain::kBatch, {n});
  };
  CellOptions options;
  options.input = 5;
  options.hidden = 6;
  options.projection = cell.projects ? 4 : 0;
  options.heads = 2;
  const CellResult result = cell.Build(&builder, x, options, place);
  graph.AddOutput("y", result.output.id());
  const Value dy = builder.Input("dy", Domain::kStep, {result.output.features()});
  std::vector<NodeId> wrt;
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (graph.node(id).op == Op::kParameter) wrt.push_back(id);
  }
  const std::vector<NodeId> gradients = Gradients(&graph, {{result.output.id(), dy.id()}}, wrt);
  for (size_t i = 0; i < wrt.size(); ++i) {
    if (gradients[i] != kNoNode) graph.AddOutput("d" + graph.node(wrt[i]).name, gradients[i]);
  }
  return graph;
}

using Kept = std::tuple<Precision, BoundaryType>;

class NarrowCopiesOfCells : public ::testing::TestWithParam<Kept> {};

TEST_P(NarrowCopiesOfCells, ProductsReadOneTypeThatIsWrittenBefore) {
  const auto [precision, boundary] = GetParam();
  for (const Cell& cell : AllCells()) {
    LoweredGraph graph = Lower(TrainedCell(cell), precision, Reuse::kNone, boundary);
    AddNarrowCopies(&graph);
    const auto type = [&](const View& view) {
      return graph.buffers[static_cast<size_t>(view.buffer)].dtype;
    };
    std::set<int32_t> written;
    for (const NamedView& input : graph.inputs) written.insert(input.view.buffer);
    for (const Group& group : graph.groups) {
      // Within a loop, a step reads what the one before wrote.
      for (const Stage& stage : group.stages) {
        for (const View& output : stage.outputs) written.insert(output.buffer);
      }
      for (const Stage& stage : group.stages) {
        EXPECT_EQ(stage.outputs.size(),
                  stage.kind == Stage::Kind::kPointwise ? stage.program.outputs.size() : 1u);
        for (const Operand& operand : stage.inputs) {
          EXPECT_TRUE(written.contains(operand.view.buffer)) << cell.name << ": " << stage.name;
          const bool product = stage.kind == Stage::Kind::kMatMul || stage.op == Op::kOuter;
          if (!product || stage.domain == Domain::kStatic) continue;
          EXPECT_EQ(type(operand.view), OperandType(precision)) << cell.name << ": " << stage.name;
          if (operand.init.buffer < 0) continue;
          EXPECT_EQ(type(operand.init), OperandType(precision)) << cell.name << ": " << stage.name;
          EXPECT_TRUE(written.contains(operand.init.buffer)) << cell.name << ": " << stage.name;
        }
      }
    }
  }
}

TEST_P(NarrowCopiesOfCells, StepInputsAndOutputsAreOfTheTypeAskedFor) {
  const auto [precision, boundary] = GetParam();
  const DType wanted =
      boundary == BoundaryType::kOperand ? OperandType(precision) : DType::kFloat32;
  for (const Cell& cell : AllCells()) {
    LoweredGraph graph = Lower(TrainedCell(cell), precision, Reuse::kNone, boundary);
    AddNarrowCopies(&graph);
    for (const auto* values : {&graph.inputs, &graph.outputs}) {
      for (const NamedView& value : *values) {
        EXPECT_EQ(TypeOf(graph, value), value.domain == Domain::kStep ? wanted : DType::kFloat32)
            << cell.name << ": " << value.name;
      }
    }
    std::set<int32_t> written;
    ForEachStage(graph, [&](const Stage& stage) {
      for (const View& output : stage.outputs) written.insert(output.buffer);
    });
    for (const NamedView& output : graph.outputs) {
      EXPECT_TRUE(written.contains(output.view.buffer)) << cell.name << ": " << output.name;
    }
  }
}

std::string NameOf(const Kept& kept) {
  const bool narrow = std::get<BoundaryType>(kept) == BoundaryType::kOperand;
  return std::string(Name(std::get<Precision>(kept))) + (narrow ? "_outside_too" : "");
}

INSTANTIATE_TEST_SUITE_P(Precisions, NarrowCopiesOfCells,
                         ::testing::Combine(::testing::ValuesIn(kPrecisions),
                                            ::testing::Values(BoundaryType::kFloat32,
                                                              BoundaryType::kOperand)),
                         [](const auto& param) { return NameOf(param.param); });

}  // namespace
}  // namespace turbolstm
