#include "graph/interpreter.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/philox.h"
#include "graph/builder.h"

namespace turbolstm {
namespace {

constexpr double kTolerance = 1e-12;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

using Data = std::vector<double>;

// A graph, its bindings, and what comes out of it.
struct Case {
  Graph graph;
  Builder builder{&graph};
  Bindings bindings;

  explicit Case(int64_t steps = 0, int64_t batch = 0) {
    bindings.steps = steps;
    bindings.batch = batch;
  }

  Value Step(const std::string& name, int64_t n, Data data) {
    bindings.values[name] = {{bindings.steps, bindings.batch, n}, std::move(data)};
    return builder.Input(name, Domain::kStep, {n});
  }
  Value Batch(const std::string& name, int64_t n, Data data) {
    bindings.values[name] = {{bindings.batch, n}, std::move(data)};
    return builder.Input(name, Domain::kBatch, {n});
  }
  Value Static(const std::string& name, std::vector<int64_t> shape, Data data) {
    bindings.values[name] = {shape, std::move(data)};
    return builder.Parameter(name, std::move(shape));
  }
  Value Index(const std::string& name, std::vector<int32_t> data) {
    bindings.indices[name] = {{bindings.steps, bindings.batch}, std::move(data)};
    return builder.IndexInput(name, Domain::kStep);
  }
  Value Apply(Op op, const std::vector<Value>& operands, Attributes attributes = {}) {
    return builder.Apply(op, operands, attributes);
  }
  Data Run(const Value& value) const {
    return InterpretNodes(graph, bindings, {value.id()}).front().data;
  }
  std::string Error(const Value& value) const {
    try {
      Run(value);
    } catch (const turbolstm::Error& error) {
      return error.what();
    }
    return "no error";
  }
};

void ExpectNear(const Data& got, const Data& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], kTolerance) << "at " << i;
}

struct PointwiseCase {
  Op op;
  std::vector<Data> operands;
  Data wanted;
};

TEST(InterpreterPointwise, KnownValues) {
  const double e = std::exp(1.0);
  const PointwiseCase cases[] = {
      {Op::kIdentity, {{1, -2}}, {1, -2}},
      {Op::kAdd, {{1, 2}, {3, 4}, {10, 20}}, {14, 26}},
      {Op::kSub, {{1, 2}, {3, 5}}, {-2, -3}},
      {Op::kMul, {{2, 3}, {4, -5}}, {8, -15}},
      {Op::kDiv, {{1, -3}, {4, 2}}, {0.25, -1.5}},
      {Op::kMax, {{1, 5}, {2, -5}}, {2, 5}},
      {Op::kMin, {{1, 5}, {2, -5}}, {1, -5}},
      {Op::kNeg, {{1, -5}}, {-1, 5}},
      {Op::kSigmoid, {{0, 1, -1000, 1000}}, {0.5, e / (1 + e), 0, 1}},
      {Op::kTanh, {{0, 1}}, {0, (e * e - 1) / (e * e + 1)}},
      {Op::kRelu, {{-2, 3}}, {0, 3}},
      {Op::kSoftplus, {{0, 1, 1000, -1000}}, {std::log(2.0), std::log(1 + e), 1000, 0}},
      {Op::kLogSigmoid, {{0, -1, 1000, -1000}}, {-std::log(2.0), -std::log(1 + e), 0, -1000}},
      {Op::kExp, {{0, 1}}, {1, e}},
      {Op::kLog, {{1, e}}, {0, 1}},
      {Op::kSqrt, {{4, 2}}, {2, 1.4142135623730951}},
      {Op::kReciprocal, {{4, -2}}, {0.25, -0.5}},
      {Op::kAbs, {{4, -2}}, {4, 2}},
      {Op::kSin, {{0, 1}}, {0, 0.8414709848078965}},
      {Op::kCos, {{0, 1}}, {1, 0.5403023058681398}},
      {Op::kGreater, {{1, 2, 2}, {2, 1, 2}}, {0, 1, 0}},
      {Op::kSelect, {{1, 0, -1}, {10, 20, 30}, {40, 50, 60}}, {10, 50, 30}},
  };
  for (const PointwiseCase& c : cases) {
    SCOPED_TRACE(Traits(c.op).name);
    Case test(1, 1);
    std::vector<Value> operands;
    for (const Data& operand : c.operands) {
      const std::string name = fmt::format("x{}", operands.size());
      operands.push_back(test.Step(name, static_cast<int64_t>(operand.size()), operand));
    }
    ExpectNear(test.Run(test.Apply(c.op, operands)), c.wanted);
  }
}

TEST(InterpreterPointwise, StretchesOverFeaturesSequencesAndSteps) {
  Case test(2, 2);
  const Value x = test.Step("x", 2, {1, 2, 3, 4, 5, 6, 7, 8});
  const Value one = test.Step("one", 1, {10, 20, 30, 40});
  const Value batch = test.Batch("batch", 2, {100, 200, 300, 400});
  const Value scalar = test.Static("scalar", {1}, {1000});
  ExpectNear(test.Run(test.Apply(Op::kAdd, {x, one, batch, scalar})),
             {1111, 1212, 1323, 1424, 1135, 1236, 1347, 1448});
  ExpectNear(test.Run(batch + scalar), {1100, 1200, 1300, 1400});
}

TEST(InterpreterSources, LengthsAndRowCounts) {
  Case test(3, 2);
  test.bindings.lengths = {1, 3};
  ExpectNear(test.Run(test.builder.Lengths()), {1, 3});
  ExpectNear(test.Run(test.builder.RowCount(Domain::kStep)), {4});
  ExpectNear(test.Run(test.builder.RowCount(Domain::kBatch)), {2});
  ExpectNear(test.Run(test.builder.Constant(2.5)), {2.5});
}

TEST(InterpreterSources, RandomMasksDrawFromTheirSite) {
  Case test(2, 3);
  test.builder.RandomMask(Domain::kBatch, 1, 0.5, 1, 0.5);
  const Value step = test.builder.RandomMask(Domain::kStep, 2, 0.75, 4, 3);
  const Value batch = test.builder.RandomMask(Domain::kBatch, 2, 0.25, 4, 9);
  ExpectNear(test.Run(step), Data(12, 3.0));
  ExpectNear(test.Run(batch), Data(6, 9.0));
  test.bindings.training = true;
  test.bindings.seed = 7;
  test.bindings.training_step = 5;
  Data wanted;
  for (uint64_t i = 0; i < 12; ++i) wanted.push_back(RandomSite{7, 5, 1}.Uniform(i) < 0.75 ? 4 : 0);
  EXPECT_EQ(test.Run(step), wanted);
  wanted.clear();
  for (uint64_t i = 0; i < 6; ++i) wanted.push_back(RandomSite{7, 5, 2}.Uniform(i) < 0.25 ? 4 : 0);
  EXPECT_EQ(test.Run(batch), wanted);
}

TEST(InterpreterMatrix, DenseAndBlockDiagonal) {
  Case test(1, 1);
  const Value x = test.Step("x", 2, {10, 100});
  const Value y = test.Step("y", 3, {1, 10, 100});
  const Value w = test.Static("w", {3, 2}, {1, 2, 3, 4, 5, 6});
  ExpectNear(test.Run(MatMul(w, x)), {210, 430, 650});
  ExpectNear(test.Run(test.Apply(Op::kMatMulTransposed, {w, y})), {531, 642});

  const Value heads = test.Static("heads", {2, 2, 1}, {1, 2, 3, 4});
  const Value z = test.Step("z", 4, {1, 10, 100, 1000});
  ExpectNear(test.Run(MatMul(heads, x)), {10, 20, 300, 400});
  ExpectNear(test.Run(test.Apply(Op::kMatMulTransposed, {heads, z})), {21, 4300});
  ExpectNear(test.Run(test.Apply(Op::kOuter, {z, x}, {.size = 2})), {10, 100, 10000, 100000});
}

TEST(InterpreterMatrix, OuterSumsValidRowsAndReadsDelayed) {
  Case test(2, 2);
  test.bindings.lengths = {2, 1};
  const Value a = test.Step("a", 1, {1, 2, 3, kNaN});
  const Value b = test.Step("b", 2, {1, 10, 2, 20, 3, 30, kNaN, kNaN});
  ExpectNear(test.Run(test.Apply(Op::kOuter, {a, b})), {1 + 4 + 9, 10 + 40 + 90});
  const Value init = test.Batch("init", 2, {5, 50, 7, 70});
  // Sequence 0: 1 * init + 3 * b(0); sequence 1: 2 * init.
  ExpectNear(test.Run(test.Apply(Op::kOuter, {a, b.Delayed(1, init)})),
             {5 + 3 + 14, 50 + 30 + 140});
}

TEST(InterpreterMatrix, ProductAndTranspose) {
  Case test;
  const Value a = test.Static("a", {2, 3}, {1, 2, 3, 4, 5, 6});
  const Value b = test.Static("b", {3, 1}, {1, 10, 100});
  ExpectNear(test.Run(test.Apply(Op::kProduct, {a, b})), {321, 654});
  ExpectNear(test.Run(test.Apply(Op::kTranspose, {a})), {1, 4, 2, 5, 3, 6});
  const Value c = test.Static("c", {2, 1, 2}, {1, 2, 3, 4});
  ExpectNear(test.Run(test.Apply(Op::kTranspose, {c})), {1, 2, 3, 4});
  const Value d = test.Static("d", {2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  ExpectNear(test.Run(test.Apply(Op::kTranspose, {d})), {1, 3, 2, 4, 5, 7, 6, 8});
}

TEST(InterpreterAxis, SlicePadConcat) {
  Case test(1, 1);
  const Value x = test.Step("x", 3, {1, 2, 3});
  ExpectNear(test.Run(Slice(x, 1, 2)), {2, 3});
  ExpectNear(test.Run(test.Apply(Op::kPad, {x}, {.begin = 1, .size = 5})), {0, 1, 2, 3, 0});
  ExpectNear(test.Run(Concat({x, Slice(x, 0, 1)})), {1, 2, 3, 1});
  const Value w = test.Static("w", {3, 2}, {1, 2, 3, 4, 5, 6});
  ExpectNear(test.Run(Slice(w, 1, 1)), {3, 4});
  ExpectNear(test.Run(test.Apply(Op::kPad, {Slice(w, 1, 1)}, {.begin = 1, .size = 2})),
             {0, 0, 3, 4});
  ExpectNear(test.Run(Concat({Slice(w, 2, 1), w})), {5, 6, 1, 2, 3, 4, 5, 6});
}

TEST(InterpreterReductions, SkipPadding) {
  Case test(2, 2);
  test.bindings.lengths = {2, 1};
  const Value x = test.Step("x", 2, {1, 2, 3, 4, 5, 6, kNaN, kNaN});
  ExpectNear(test.Run(x), {1, 2, 3, 4, 5, 6, 0, 0});
  ExpectNear(test.Run(RowSum(x)), {3, 7, 11, 0});
  ExpectNear(test.Run(SumTime(x)), {6, 8, 3, 4});
  ExpectNear(test.Run(SumRows(x)), {9, 12});
  ExpectNear(test.Run(SumRows(SumTime(x))), {9, 12});
  ExpectNear(test.Run(1.0 + x), {2, 3, 4, 5, 6, 7, 0, 0});
}

TEST(InterpreterReductions, FirstMaxMaskTakesTheFirstOfEquals) {
  Case test(3, 2);
  test.bindings.lengths = {3, 2};
  const Value x = test.Step("x", 1, {-1, 3, -4, 2, -1, 9});
  ExpectNear(test.Run(test.Apply(Op::kFirstMaxMask, {x})), {1, 1, 0, 0, 0, 0});
}

TEST(InterpreterIndices, GatherScatterOneHotCrossEntropy) {
  Case test(2, 2);
  test.bindings.lengths = {2, 1};
  const Value ids = test.Index("ids", {2, 0, 2, 99});
  const Value table = test.Static("table", {3, 2}, {1, 2, 3, 4, 5, 6});
  ExpectNear(test.Run(test.Apply(Op::kGather, {table, ids})), {5, 6, 1, 2, 5, 6, 0, 0});
  const Value g = test.Step("g", 2, {1, 2, 3, 4, 5, 6, kNaN, kNaN});
  ExpectNear(test.Run(test.Apply(Op::kScatterAdd, {ids, g}, {.size = 3})), {3, 4, 0, 0, 6, 8});
  ExpectNear(test.Run(test.Apply(Op::kOneHot, {ids}, {.size = 3})),
             {0, 0, 1, 1, 0, 0, 0, 0, 1, 0, 0, 0});
  const Value logits = test.Step("logits", 3, {0, 0, 0, 1000, 0, 0, 0, 1, 1, kNaN, kNaN, kNaN});
  const double e = std::exp(1.0);
  ExpectNear(test.Run(test.Apply(Op::kCrossEntropy, {logits, ids})),
             {std::log(3.0), 0, std::log(1 + 2 * e) - 1, 0});
  ExpectNear(test.Run(test.Apply(Op::kSoftmax, {logits})),
             {1 / 3.0, 1 / 3.0, 1 / 3.0, 1, 0, 0, 1 / (1 + 2 * e), e / (1 + 2 * e), e / (1 + 2 * e),
              0, 0, 0});
}

TEST(InterpreterDelay, ReadsTheInitialValueOldestFirst) {
  Case test(4, 1);
  const Value x = test.Step("x", 1, {1, 2, 3, 4});
  const Value init = test.Batch("init", 2, {-2, -1});
  ExpectNear(test.Run(test.Apply(Op::kIdentity, {x.Delayed(2, init)})), {-2, -1, 1, 2});
  ExpectNear(test.Run(test.Apply(Op::kIdentity, {x.Delayed(2)})), {0, 0, 1, 2});
  const Value learned = test.Static("learned", {6}, {-6, -5, -4, -3, -2, -1});
  ExpectNear(test.Run(test.Apply(Op::kIdentity, {x.Delayed(6, learned)})), {-6, -5, -4, -3});
}

TEST(InterpreterDelay, ReverseStartsAtTheLastValidStep) {
  Case test(4, 2);
  test.bindings.lengths = {4, 2};
  const Value x = test.Step("x", 1, {1, 10, 2, 20, 3, kNaN, 4, kNaN});
  const Value init = test.Batch("init", 1, {-1, -10});
  Builder reverse(&test.graph, Direction::kReverse);
  ExpectNear(test.Run(reverse.Apply(Op::kIdentity, {x.Delayed(1, init)})),
             {2, 20, 3, -10, 4, 0, -1, 0});
}

TEST(InterpreterDelay, ResetStartsTheWalkAnew) {
  Case test(5, 1);
  test.bindings.resets = {0, 0, 1, 0, 0};
  const Value x = test.Step("x", 1, {1, 2, 3, 4, 5});
  const Value init = test.Batch("init", 2, {-2, -1});
  ExpectNear(test.Run(test.Apply(Op::kIdentity, {x.Delayed(2, init)})), {-2, -1, -2, -1, 3});
  const Value last = test.Batch("last", 1, {-1});
  ExpectNear(test.Run(test.Apply(Op::kIdentity, {x.Delayed(1, last)})), {-1, 1, -1, 3, 4});
  Builder reverse(&test.graph, Direction::kReverse);
  // Walking 5 4 3 | 2 1: the reset at step 2 is where the second walk begins.
  ExpectNear(test.Run(reverse.Apply(Op::kIdentity, {x.Delayed(2, init)})), {3, -1, -2, -1, -2});
}

TEST(InterpreterDelay, TheLatestResetCounts) {
  Case test(4, 1);
  test.bindings.resets = {0, 1, 1, 0};
  const Value x = test.Step("x", 1, {1, 2, 3, 4});
  const Value init = test.Batch("init", 3, {-3, -2, -1});
  ExpectNear(test.Run(test.Apply(Op::kIdentity, {x.Delayed(3, init)})), {-3, -3, -3, -2});
}

TEST(InterpreterDelay, AdjointEdgesAreCutWhereTheWalkWas) {
  Case test(5, 1);
  test.bindings.resets = {0, 0, 1, 0, 0};
  const Value x = test.Step("x", 1, {1, 2, 3, 4, 5});
  const auto adjoint = [&](Direction direction, int32_t delay) {
    Builder builder(&test.graph, direction);
    Edge edge = x.Delayed(delay).edge();
    edge.adjoint = true;
    return test.Run(builder.Apply(Op::kIdentity, {Value(&builder, edge)}));
  };
  // The original walk goes forward: step 2 begins anew, so nothing flows from 2 back to 1.
  ExpectNear(adjoint(Direction::kReverse, 1), {2, 0, 4, 5, 0});
  ExpectNear(adjoint(Direction::kReverse, 2), {0, 0, 5, 0, 0});
  // The original walk goes 4 3 | 2 1 0.
  ExpectNear(adjoint(Direction::kForward, 1), {0, 1, 2, 0, 4});
}

TEST(InterpreterFinal, HistoryBehindTheLastStep) {
  Case test(3, 3);
  test.bindings.lengths = {3, 1, 0};
  const Value x = test.Step("x", 1, {1, 10, kNaN, 2, kNaN, kNaN, 3, kNaN, kNaN});
  const Value init = test.Batch("init", 2, {-2, -1, -20, -10, -200, -100});
  ExpectNear(test.Run(Final(x.Delayed(2, init))), {2, 3, -10, 10, -200, -100});
  ExpectNear(test.Run(Final(x.Delayed(1))), {3, 10, 0});
  Builder reverse(&test.graph, Direction::kReverse);
  ExpectNear(test.Run(reverse.Apply(Op::kFinal, {x.Delayed(2, init)})),
             {2, 1, -10, 10, -200, -100});
  test.bindings.resets = {0, 0, 0, 0, 0, 0, 1, 0, 0};
  // A reader behind the end stands one and two positions after the reset.
  ExpectNear(test.Run(Final(x.Delayed(2, init))), {-1, 3, -10, 10, -200, -100});
}

TEST(InterpreterFinal, Adjoints) {
  Case test(3, 3);
  test.bindings.lengths = {3, 1, 0};
  const Value g = test.Batch("g", 2, {1, 2, 10, 20, 100, 200});
  const Attributes delay2 = {.size = 2};
  ExpectNear(test.Run(test.Apply(Op::kFinalGrad, {g}, delay2)), {0, 20, 0, 1, 0, 0, 2, 0, 0});
  ExpectNear(test.Run(test.Apply(Op::kFinalInitGrad, {g}, delay2)), {0, 0, 0, 10, 100, 200});
  Builder reverse(&test.graph, Direction::kReverse);
  ExpectNear(test.Run(reverse.Apply(Op::kFinalGrad, {g}, delay2)), {2, 20, 0, 1, 0, 0, 0, 0, 0});
  test.bindings.resets = {0, 0, 0, 0, 0, 0, 1, 0, 0};
  ExpectNear(test.Run(test.Apply(Op::kFinalGrad, {g}, delay2)), {0, 20, 0, 0, 0, 0, 2, 0, 0});
  ExpectNear(test.Run(test.Apply(Op::kFinalInitGrad, {g}, delay2)), {0, 1, 0, 10, 100, 200});
}

TEST(InterpreterFinal, InitGradSumsTheReadersOfEachRow) {
  Case test(4, 2);
  test.bindings.lengths = {4, 1};
  const Value g = test.Step("g", 1, {1, 10, 2, kNaN, 3, kNaN, 4, kNaN});
  const Attributes delay2 = {.size = 2};
  ExpectNear(test.Run(test.Apply(Op::kInitGrad, {g}, delay2)), {1, 2, 10, 0});
  test.bindings.resets = {0, 0, 0, 0, 1, 0, 0, 0};
  ExpectNear(test.Run(test.Apply(Op::kInitGrad, {g}, delay2)), {4, 6, 10, 0});
}

TEST(InterpreterCycles, RunOverDelaysAndManySteps) {
  const int64_t steps = 100000;
  Case test(steps, 1);
  const Value x = test.Step("x", 1, Data(static_cast<size_t>(steps), 1.0));
  const Value sum = test.builder.State("sum", 1);
  test.builder.Define(sum, x + sum.Previous());
  EXPECT_EQ(test.Run(Final(sum.Previous())), Data{static_cast<double>(steps)});
}

TEST(InterpreterCycles, Fibonacci) {
  Case test(6, 1);
  const Value init = test.Batch("init", 2, {0, 1});
  const Value fibonacci = test.builder.State("fibonacci", 1);
  // The last row of the history is the value of one step before.
  test.builder.Define(fibonacci,
                      fibonacci.Delayed(1, Slice(init, 1, 1)) + fibonacci.Delayed(2, init));
  ExpectNear(test.Run(fibonacci), {1, 2, 3, 5, 8, 13});
}

TEST(InterpreterCycles, NamedWhenTheyHaveNoDelay) {
  Case test(1, 1);
  const Value x = test.Step("x", 1, {1});
  const Value a = test.builder.State("a", 1);
  const Value b = (a + x).Named("b");
  test.builder.Define(a, b);
  EXPECT_EQ(test.Error(b), "[interpreter] a value depends on itself: b reads a reads b");
}

TEST(InterpreterEmpty, NoStepsAndNoSequences) {
  for (const auto& [steps, batch] : {std::pair<int64_t, int64_t>{0, 2}, {3, 0}, {0, 0}}) {
    Case test(steps, batch);
    const auto b = static_cast<size_t>(batch);
    const Value x = test.Step("x", 2, Data(static_cast<size_t>(steps) * b * 2));
    const Value init = test.Batch("init", 2, Data(b * 2, 3.0));
    EXPECT_EQ(test.Run(x + x).size(), static_cast<size_t>(steps) * b * 2);
    EXPECT_EQ(test.Run(Final(x.Delayed(1, init))), Data(b * 2, 3.0));
    EXPECT_EQ(test.Run(SumRows(x)), Data(2, 0.0));
    EXPECT_EQ(test.Run(test.Apply(Op::kOuter, {x, x})), Data(4, 0.0));
  }
}

TEST(InterpreterEmpty, NoFeatures) {
  Case test(2, 1);
  const Value x = test.Step("x", 0, {});
  const Value w = test.Static("w", {3, 0}, {});
  ExpectNear(test.Run(MatMul(w, x)), Data(6, 0.0));
  ExpectNear(test.Run(RowSum(x)), {0, 0});
}

TEST(InterpreterErrors, Bindings) {
  Case good(2, 2);
  const Value x = good.Step("x", 1, {1, 2, 3, 4});
  const Value ids = good.Index("ids", {0, 1, 0, 1});
  const Value table = good.Static("table", {2, 1}, {1, 2});
  const Value y = good.Apply(Op::kGather, {table, ids}) + x;
  EXPECT_EQ(good.Error(y), "no error");
  const auto error = [&](auto change) {
    Bindings bindings = good.bindings;
    change(&bindings);
    try {
      InterpretNodes(good.graph, bindings, {y.id()});
    } catch (const Error& caught) {
      return std::string(caught.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(error([](Bindings* b) { b->values.erase("x"); }),
            "[input] 'x' is not bound, wants [2, 2, 1]");
  EXPECT_EQ(error([](Bindings* b) { b->values["z"] = {}; }),
            "[bindings] 'z' is bound, the graph has no such input or parameter");
  EXPECT_EQ(error([](Bindings* b) { b->values["ids"] = {}; }),
            "[bindings] 'ids' is bound, the graph has no such input or parameter");
  EXPECT_EQ(error([](Bindings* b) { b->indices["x"] = {}; }),
            "[bindings] 'x' is bound, the graph has no such index input");
  EXPECT_EQ(error([](Bindings* b) {
              b->values["x"].shape = {4, 1, 1};
            }),
            "[input] 'x' is bound to [4, 1, 1], wants [2, 2, 1]");
  EXPECT_EQ(error([](Bindings* b) { b->values["x"].data.pop_back(); }),
            "[input] 'x' holds 3 elements, its shape [2, 2, 1] wants 4");
  EXPECT_EQ(error([](Bindings* b) {
              b->indices["ids"].shape = {2, 2, 1};
            }),
            "[input] 'ids' is bound to [2, 2, 1], wants [2, 2]");
  EXPECT_EQ(error([](Bindings* b) { b->lengths = {1}; }), "[bindings] got 1 lengths, wants B = 2");
  EXPECT_EQ(error([](Bindings* b) {
              b->lengths = {1, 3};
            }),
            "[bindings] length 1 is 3, wants 0 to T = 2");
  EXPECT_EQ(error([](Bindings* b) {
              b->lengths = {-1, 2};
            }),
            "[bindings] length 0 is -1, wants 0 to T = 2");
  EXPECT_EQ(error([](Bindings* b) {
              b->resets = {1, 0};
            }),
            "[bindings] got 2 resets, wants T * B = 4");
  EXPECT_EQ(error([](Bindings* b) { b->steps = -1; }), "[bindings] got T = -1 and B = 2");
  EXPECT_EQ(error([](Bindings* b) { b->indices["ids"].data[3] = 2; }),
            "[gather] index 2 of 'ids' (step 1, sequence 1) wants 0 to 1");
  EXPECT_EQ(error([](Bindings* b) { b->indices["ids"].data[2] = -1; }),
            "[gather] index -1 of 'ids' (step 1, sequence 0) wants 0 to 1");
}

TEST(InterpreterErrors, GraphsThatAreNotReady) {
  Case test(1, 1);
  const Value x = test.Step("x", 1, {1});
  const Value y = test.Apply(Op::kIdentity, {x.Previous().WithZoneout(0.5F)}).Named("y");
  EXPECT_EQ(test.Error(y),
            "[interpreter] 'y' reads x@1 with zoneout, which LowerTransforms expands beforehand");

  Case open(1, 1);
  const Value state = open.builder.State("h", 1);
  EXPECT_EQ(open.Error(state), "[identity 'h'] got 0 operands, wants 1");
}

TEST(Interpret, GivesEveryOutputWithItsShape) {
  Case test(2, 1);
  const Value x = test.Step("x", 1, {1, 2});
  test.graph.AddOutput("y", (x + x).id());
  test.graph.AddOutput("sum", SumRows(x).id());
  const std::map<std::string, Array> wanted = {{"y", {{2, 1, 1}, {2, 4}}}, {"sum", {{1}, {3}}}};
  EXPECT_EQ(Interpret(test.graph, test.bindings), wanted);
}

}  // namespace
}  // namespace turbolstm
