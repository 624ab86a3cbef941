// Graphs on an NVIDIA GPU agree with the float64 interpreter, in every precision.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "execution/gpu_tolerance.h"
#include "execution/half_values.h"
#include "execution/make_execution.h"
#include "graph/passes/lower_transforms.h"
#include "graph/text.h"
#include "nn/recurrent.h"
#include "plan/comparison.h"
#include "plan/recurrent_graphs.h"
#include "testing/random_bindings.h"
#include "testing/random_graph.h"

namespace turbolstm {
namespace {

Outputs ExecuteOnGpu(const Graph& graph, const Bindings& bindings, Precision precision,
                     BoundaryType boundary = BoundaryType::kFloat32, bool recompute = false) {
  const std::unique_ptr<Execution> execution =
      MakeCudaExecution(graph, {.index = 0,
                                .precision = precision,
                                .split = SplitRule::kAlways,
                                .boundary = boundary,
                                .recompute = recompute});
  const Outputs first = RunAndRead(execution.get(), bindings);
  EXPECT_EQ(RunAndRead(execution.get(), bindings), first) << "the same run twice";
  if (boundary == BoundaryType::kOperand) {
    EXPECT_EQ(RunAndReadHalf(execution.get(), bindings), first) << "bound and read as bits";
  }
  return first;
}

class RandomGraphsOnGpu : public ::testing::TestWithParam<int> {};

TEST_P(RandomGraphsOnGpu, AgreeWithTheInterpreter) {
  SKIP_WITHOUT_GPU();
  const auto seed = static_cast<uint64_t>(GetParam());
  RandomGraphOptions options;
  options.transforms = seed % 2 == 1;
  options.delay_any = seed % 5 == 4;
  const Graph drawn = RandomGraph(seed, options);
  Graph graph = drawn;
  LowerTransforms(&graph);
  if (seed % 3 > 0) graph = WithGradients(graph);
  const Bindings bindings = RandomBindings(graph, seed, RandomBindingsOptionsFor(seed));
  const Outputs outputs =
      ExecuteOnGpu(graph, bindings, Precision::kFloat32, BoundaryType::kFloat32, seed % 4 == 3);
  EXPECT_EQ(Differences(graph, bindings, outputs, kFloat32Tolerance), "") << "seed " << seed << "\n"
                                                                          << PrintGraph(drawn);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomGraphsOnGpu, ::testing::Range(0, 200));

struct CellCase {
  std::string cell;
  Precision precision;
  BoundaryType boundary = BoundaryType::kFloat32;
};

std::string NameOf(const CellCase& c) {
  const bool half = c.boundary == BoundaryType::kOperand;
  return c.cell + "_" + std::string(Name(c.precision)) + (half ? "_outside_too" : "");
}
void PrintTo(const CellCase& c, std::ostream* out) {
  *out << NameOf(c);
}

// Layers over "x" with the output "y" alone.
Graph GraphOfOutput(const RecurrentOptions& options) {
  Model model;
  const Value x = model.builder().Input("x", Domain::kStep, {options.size.input});
  model.graph().AddOutput("y", Recurrent(model, "rnn", x, options).output.id());
  LowerTransforms(&model.graph());
  return model.graph();
}

class CellsOnGpu : public ::testing::TestWithParam<CellCase> {
 protected:
  void Check(const RecurrentOptions& options, const RandomBindingsOptions& how, uint64_t seed,
             bool recompute = false) {
    CheckGraph(WithGradients(RecurrentGraph(options)), how, seed, recompute);
  }

  void CheckGraph(const Graph& graph, const RandomBindingsOptions& how, uint64_t seed,
                  bool recompute = false) {
    const auto& [cell, precision, boundary] = GetParam();
    Bindings bindings = RandomBindings(graph, seed, how);
    if (boundary == BoundaryType::kOperand) RoundStepInputs(graph, precision, &bindings);
    EXPECT_EQ(
        Differences(graph, bindings, ExecuteOnGpu(graph, bindings, precision, boundary, recompute),
                    GpuTolerance(precision, cell)),
        "")
        << cell << " " << Name(precision) << ", " << how.steps << " steps of " << how.batch;
  }
};

TEST_P(CellsOnGpu, AgreeWithTheInterpreter) {
  SKIP_WITHOUT_GPU();
  Check(SmallOptions(GetParam().cell), {.steps = 7, .batch = 5, .ragged = false}, 1);
}

TEST_P(CellsOnGpu, AgreeInBothDirectionsWithLengthsAndResets) {
  SKIP_WITHOUT_GPU();
  RecurrentOptions options = SmallOptions(GetParam().cell);
  options.layers = 2;
  options.bidirectional = true;
  Check(options, {.steps = 9, .batch = 6, .ragged = true}, 2);
  Check(options, {.steps = 9, .batch = 6, .ragged = true, .resets = 0.2}, 3);
}

TEST_P(CellsOnGpu, AgreeWithMasks) {
  SKIP_WITHOUT_GPU();
  RecurrentOptions options = SmallOptions(GetParam().cell);
  options.layers = 2;
  options.dropout = 0.3;
  options.zoneout = 0.2;
  options.recurrent_dropout = 0.2;
  Check(options, {.steps = 6, .batch = 4, .ragged = true, .training = true}, 4);
}

TEST_P(CellsOnGpu, AgreeWhereActivationsAreRecomputed) {
  SKIP_WITHOUT_GPU();
  RecurrentOptions options = SmallOptions(GetParam().cell);
  options.layers = 2;
  options.dropout = 0.4;
  options.zoneout = 0.2;
  Check(options, {.steps = 9, .batch = 5, .ragged = true, .training = true}, 5, true);
}

TEST_P(CellsOnGpu, AgreeOnEdges) {
  SKIP_WITHOUT_GPU();
  for (const int64_t steps : {0, 1, 2}) {
    for (const int64_t batch : {0, 1, 17}) {
      Check(SmallOptions(GetParam().cell), {.steps = steps, .batch = batch, .ragged = true}, 5);
    }
  }
}

// Then what the backward pass reads of a state that no product reads is kept in 16 bits.
TEST_P(CellsOnGpu, AgreeWhereNobodyAsksForLastStates) {
  SKIP_WITHOUT_GPU();
  RecurrentOptions options = SmallOptions(GetParam().cell);
  options.layers = 2;
  options.bidirectional = true;
  CheckGraph(WithGradients(GraphOfOutput(options)), {.steps = 9, .batch = 6, .ragged = true}, 6);
}

std::vector<CellCase> AllCases() {
  std::vector<CellCase> cases;
  for (const std::string& cell : CellNames()) {
    for (const Precision precision : kPrecisions) {
      cases.push_back({cell, precision});
    }
    for (const Precision precision : {Precision::kBFloat16, Precision::kFloat16}) {
      cases.push_back({cell, precision, BoundaryType::kOperand});
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Cells, CellsOnGpu, ::testing::ValuesIn(AllCases()),
                         [](const auto& param) { return NameOf(param.param); });

// Cells with a loop that is linear in its state, forward or backward, over so many steps that it
// runs as a parallel prefix.
class PrefixesOnGpu : public CellsOnGpu {};

TEST_P(PrefixesOnGpu, AgreeOverManySteps) {
  SKIP_WITHOUT_GPU();
  RecurrentOptions options = SmallOptions(GetParam().cell);
  options.bidirectional = true;
  Check(options, {.steps = 150, .batch = 2, .ragged = false}, 7);
  options.initial = InitialState::kGiven;
  Check(options, {.steps = 200, .batch = 5, .ragged = true}, 8);
  Check(options, {.steps = 200, .batch = 5, .ragged = true, .resets = 0.02}, 9);
}

std::vector<CellCase> CellsWithPrefixes() {
  std::vector<CellCase> cases;
  for (const char* cell : {"trnn", "scrn", "indrnn"}) {
    for (const Precision precision : kPrecisions) {
      // What 16 bits round away turns the sign of some of the many values in front of a relu, and
      // with it whole gradients.
      const bool relu = cell == std::string("indrnn");
      if (!relu || SizeOf(OperandType(precision)) > 2 || precision == Precision::kBf16x6) {
        cases.push_back({cell, precision});
      }
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Cells, PrefixesOnGpu, ::testing::ValuesIn(CellsWithPrefixes()),
                         [](const auto& param) { return NameOf(param.param); });

}  // namespace
}  // namespace turbolstm
