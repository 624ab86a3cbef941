#include "cells/cell.h"

#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "base/error_test.h"
#include "graph/analysis.h"

namespace turbolstm {
namespace {

CellOptions OptionsFor(const Cell& cell) {
  CellOptions options;
  options.input = 5;
  options.hidden = 6;
  options.projection = cell.projects ? 4 : 0;
  options.heads = 2;
  options.delay = 3;
  return options;
}

CellResult BuildOn(Builder& builder, const Cell& cell, const CellOptions& options) {
  const Value x = builder.Input("x", Domain::kStep, {options.input});
  CellResult result = cell.Build(&builder, x, options);
  builder.graph().AddOutput("y", result.output.id());
  for (const CellState& state : result.states) {
    builder.graph().AddOutput("final." + state.name, state.final.id());
  }
  return result;
}

struct Loop {
  RegionKind kind;
  int levels;
  bool operator==(const Loop&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Loop& loop) {
  return out << Name(loop.kind) << " with " << loop.levels << " levels";
}

std::vector<Loop> LoopsOf(std::string_view name) {
  const Cell& cell = FindCell(name);
  Graph graph;
  Builder builder(&graph);
  BuildOn(builder, cell, OptionsFor(cell));
  std::vector<Loop> loops;
  for (const Region& region : Analyse(graph).regions) {
    if (region.is_loop()) loops.push_back({region.kind, region.levels});
  }
  return loops;
}

struct Expectation {
  const char* cell;
  std::vector<Loop> loops;
};

const Loop kScan{RegionKind::kScan, 0};
const Loop kPointwise{RegionKind::kPointwiseLoop, 0};
const Loop kOneProduct{RegionKind::kGemmLoop, 1};
const Loop kTwoProducts{RegionKind::kGemmLoop, 2};

const Expectation kExpectations[] = {
    {"rnn_tanh", {kOneProduct}},
    {"rnn_relu", {kOneProduct}},
    {"lstm", {kOneProduct}},
    {"gru", {kOneProduct}},
    {"gru_original", {kTwoProducts}},
    {"lstm_projection", {kTwoProducts}},
    {"peephole_lstm", {kOneProduct}},
    {"layer_norm_lstm", {kOneProduct}},
    {"mgu", {kTwoProducts}},
    {"indrnn", {kPointwise}},
    {"trnn", {kScan}},
    {"tau_gru", {kOneProduct}},
    {"scrn", {kScan, kTwoProducts}},
    {"slstm", {kOneProduct}},
};

TEST(Cells, LoopsAreOfTheKindThatTheEquationsPromise) {
  std::set<std::string_view> seen;
  for (const auto& [cell, loops] : kExpectations) {
    EXPECT_EQ(LoopsOf(cell), loops) << cell;
    seen.insert(cell);
  }
  for (const Cell& cell : AllCells()) EXPECT_TRUE(seen.contains(cell.name)) << cell.name;
}

TEST(Cells, SlicesOfPackedWeightsAreHoisted) {
  Graph graph;
  Builder builder(&graph);
  BuildOn(builder, FindCell("mgu"), OptionsFor(FindCell("mgu")));
  const Analysis analysis = Analyse(graph);
  int slices = 0;
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (graph.node(id).op != Op::kSlice || graph.node(id).domain != Domain::kStatic) continue;
    ++slices;
    const auto region = static_cast<size_t>(analysis.region_of[static_cast<size_t>(id)]);
    EXPECT_EQ(analysis.regions[region].kind, RegionKind::kHoisted);
  }
  EXPECT_EQ(slices, 2);
}

TEST(Cells, UnknownNameListsTheKnown) {
  try {
    FindCell("lsmt");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("'lsmt'"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("peephole_lstm"), std::string::npos);
  }
}

TEST(Cells, BadSizesAreNamed) {
  const auto build = [](std::string_view name, const CellOptions& options) {
    Graph graph;
    Builder builder(&graph);
    BuildOn(builder, FindCell(name), options);
  };
  CellOptions options = OptionsFor(FindCell("lstm"));
  EXPECT_NO_THROW(build("lstm", options));
  options.projection = 4;
  EXPECT_THROW(build("lstm", options), Error);
  EXPECT_NO_THROW(build("lstm_projection", options));
  options.projection = 0;
  EXPECT_THROW(build("lstm_projection", options), Error);
  options.heads = 4;
  EXPECT_THROW(build("slstm", options), Error);
  options.heads = 2;
  options.hidden = 0;
  EXPECT_THROW(build("slstm", options), Error);
}

TEST(Cells, PackedParametersHavePyTorchShapes) {
  CellOptions options = OptionsFor(FindCell("lstm_projection"));
  Graph graph;
  Builder builder(&graph);
  BuildOn(builder, FindCell("lstm_projection"), options);
  const auto shape = [&](const char* name) { return graph.node(graph.Find(name)).features; };
  EXPECT_EQ(shape("weight_ih"), (std::vector<int64_t>{24, 5}));
  EXPECT_EQ(shape("weight_hh"), (std::vector<int64_t>{24, 4}));
  EXPECT_EQ(shape("weight_hr"), (std::vector<int64_t>{4, 6}));
  EXPECT_EQ(shape("bias_ih"), (std::vector<int64_t>{24}));
}

TEST(Cells, WithoutBiasThereIsNone) {
  for (const Cell& cell : AllCells()) {
    CellOptions options = OptionsFor(cell);
    options.bias = false;
    Graph graph;
    Builder builder(&graph);
    for (const ParameterSpec& spec : BuildOn(builder, cell, options).parameters) {
      EXPECT_FALSE(spec.name.starts_with("bias")) << cell.name << " " << spec.name;
    }
  }
}

TEST(Cells, ForgetBiasFillsItsRowsOnly) {
  CellOptions options = OptionsFor(FindCell("lstm"));
  options.forget_bias = 1.0;
  Graph graph;
  Builder builder(&graph);
  const CellResult result = BuildOn(builder, FindCell("lstm"), options);
  for (const ParameterSpec& spec : result.parameters) {
    if (!spec.name.starts_with("bias")) continue;
    const std::vector<float> values = DrawParameter(spec, 7);
    const float wanted = spec.name == "bias_ih" ? 1.0f : 0.0f;
    for (size_t i = 0; i < values.size(); ++i) {
      const bool forget = i >= 6 && i < 12;
      EXPECT_EQ(values[i] == wanted, forget) << spec.name << " " << i;
    }
  }
}

TEST(UserCell, IsFoundByItsNameAndRefusedTwice) {
  const auto equations = [](CellScope& cell) {
    const Value h = cell.State("h", cell.H());
    return cell.Define(h, Tanh(cell.Gates(1, h)));
  };
  AddCell("my_cell", "a plain one", equations);
  EXPECT_EQ(FindCell("my_cell").description, "a plain one");
  Graph graph;
  Builder builder(&graph);
  CellOptions options;
  options.input = 2;
  options.hidden = 3;
  const CellResult result =
      FindCell("my_cell").Build(&builder, builder.Input("x", Domain::kStep, {2}), options);
  EXPECT_EQ(result.states.size(), 1);
  EXPECT_EQ(result.parameters.size(), 4);
  EXPECT_THROW(AddCell("my_cell", "", equations), Error);
  EXPECT_THROW(AddCell("lstm", "", equations), Error);
  EXPECT_THROW(AddCell("nothing", "", nullptr), Error);
  ExpectParts(ErrorOf([] { FindCell("mine"); }), {"lstm", "my_cell"});
}

}  // namespace
}  // namespace turbolstm
