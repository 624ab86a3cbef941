#include "plan/executable.h"

#include <gtest/gtest.h>

#include <numeric>

#include "base/error_test.h"
#include "graph/text.h"

namespace turbolstm {
namespace {

using Floats = std::vector<float>;

// y = table[id] + W x, and a sum over everything.
constexpr std::string_view kGraph = R"(
input x: step[2]
index id: step
parameter w: static[2, 2]
parameter table: static[3, 2]
%4: step[2] = matmul(w, x)
%5: step[2] = gather(table, id)
y: step[2] = add(%4, %5)
total: static[2] = sum_rows(y)
output y = y
output total = total
)";

class ExecutableTest : public ::testing::Test {
 protected:
  void SetUp() override {
    executable.SetShape(2, 1);
    BindAll();
  }

  void BindAll() {
    executable.Bind("x", x);
    executable.BindIndices("id", id);
    executable.Bind("w", w);
    executable.Bind("table", table);
  }

  Floats Run(std::string_view output = "y") {
    executable.Run();
    const std::span<const float> values = executable.Output(output);
    return {values.begin(), values.end()};
  }

  const Floats wanted = {101, 202, 13, 24};
  Floats x = {1, 2, 3, 4};
  std::vector<int32_t> id = {1, 0};
  Floats w = {1, 0, 0, 1};
  Floats table = {10, 20, 100, 200, 1000, 2000};
  Executable executable{ParseGraph(kGraph), {.streams = 2, .verify = true}};
};

TEST_F(ExecutableTest, RunsWhatIsBound) {
  EXPECT_EQ(Run(), wanted);
  EXPECT_EQ(Run("total"), (Floats{114, 226}));
}

TEST_F(ExecutableTest, RefusesUnknownNamesAndWrongSizesAndStaysUsable) {
  EXPECT_EQ(ErrorOf([&] { executable.Bind("z", x); }),
            "[bind] the graph has no input or parameter 'z'");
  EXPECT_EQ(ErrorOf([&] { executable.Bind("x", w = {1}); }),
            "[bind] 'x' got 1 elements, wants 4 (step [2])");
  EXPECT_EQ(ErrorOf([&] { executable.Bind("id", x); }),
            "[bind] input 'id' got numbers, wants indices");
  EXPECT_EQ(ErrorOf([&] { executable.BindIndices("x", id); }),
            "[bind] input 'x' got indices, wants numbers");
  EXPECT_EQ(ErrorOf([&] { executable.BindHalf("x", std::vector<uint16_t>(4)); }),
            "[bind] 'x' is float32 here, got 16-bit numbers");
  w = {1, 0, 0, 1};
  BindAll();
  EXPECT_EQ(Run(), wanted);
  EXPECT_EQ(ErrorOf([&] { executable.Output("z"); }), "[output] the graph has no output 'z'");
  EXPECT_EQ(ErrorOf([&] { executable.HalfOutput("y"); }),
            "[output] 'y' is float32 here, 16-bit numbers were asked for");
  EXPECT_EQ(Run(), wanted);
}

TEST_F(ExecutableTest, RefusesToRunUnboundAndStaysUsable) {
  Executable fresh(ParseGraph(kGraph), {.streams = 1});
  fresh.SetShape(2, 1);
  fresh.Bind("x", x);
  EXPECT_EQ(ErrorOf([&] { fresh.Run(); }), "[run] 'id' is not bound");
  executable.SetShape(1, 1);
  EXPECT_EQ(ErrorOf([&] { executable.Run(); }),
            "[run] 'x' was bound with 4 elements, the shape wants 2");
  executable.SetShape(2, 1);
  EXPECT_EQ(Run(), wanted);
}

TEST_F(ExecutableTest, KeepsItsShapeWhenTheNextIsRefused) {
  EXPECT_EQ(Run(), wanted);
  EXPECT_NE(ErrorOf([&] { executable.SetShape(2, 1, std::vector<int32_t>{3}); }), "");
  EXPECT_EQ(Run(), wanted);
}

TEST_F(ExecutableTest, HasNoOutputBeforeARunOfItsShape) {
  const std::string error = "[output] 'y' is asked for before a run of this shape";
  EXPECT_EQ(ErrorOf([&] { executable.Output("y"); }), error);
  Run();
  executable.SetShape(2, 1);
  EXPECT_EQ(ErrorOf([&] { executable.Output("y"); }), error);
}

// Whatever a failing run left half done, the next one does not see it: neither sums that were begun
// nor weights that were packed.
TEST_F(ExecutableTest, StaysUsableAfterAnIndexOutsideItsTable) {
  for (const bool packed_before : {false, true}) {
    if (packed_before) {
      EXPECT_EQ(Run(), wanted);
    }
    w = {2, 0, 0, 2};
    executable.ParametersChanged();
    id[1] = 3;
    EXPECT_EQ(ErrorOf([&] { executable.Run(); }),
              "[gather#5] index 3 is outside 0 to 2 (step 1, sequence 0)");
    EXPECT_NE(ErrorOf([&] { executable.Output("y"); }), "");
    id[1] = 0;
    EXPECT_EQ(Run(), (Floats{102, 204, 16, 28}));
    EXPECT_EQ(Run("total"), (Floats{118, 232}));
    w = {1, 0, 0, 1};
    executable.ParametersChanged();
  }
  EXPECT_EQ(Run(), wanted);
}

TEST_F(ExecutableTest, SeesNewNumbersOfParametersWhenTold) {
  EXPECT_EQ(Run(), wanted);
  w = {2, 0, 0, 2};
  executable.ParametersChanged();
  EXPECT_EQ(Run(), (Floats{102, 204, 16, 28}));
  const Floats other = {0, 0, 0, 0};
  executable.Bind("w", other);
  EXPECT_EQ(Run(), (Floats{100, 200, 10, 20}));
}

TEST_F(ExecutableTest, MemoryStopsGrowingAtTheLargestShape) {
  std::vector<int64_t> bytes;
  Floats wide(2 * 64);
  const std::vector<int32_t> indices(64);
  for (const int64_t steps : {64, 8, 64, 1, 33, 64}) {
    for (const std::vector<int32_t>& lengths :
         {std::vector<int32_t>{}, {static_cast<int32_t>(steps / 2)}}) {
      executable.SetShape(steps, 1, lengths);
      executable.Bind("x", std::span(wide).first(static_cast<size_t>(2 * steps)));
      executable.BindIndices("id", std::span(indices).first(static_cast<size_t>(steps)));
      executable.Run();
      bytes.push_back(executable.memory_bytes());
    }
  }
  EXPECT_GT(bytes[0], 0);
  for (size_t i = 1; i < bytes.size(); ++i) EXPECT_EQ(bytes[i], bytes[1]) << i;
}

TEST_F(ExecutableTest, RefusesGraphsThatHaveNoPlaceInRows) {
  const auto error = [](const char* graph) {
    return ErrorOf([&] { Executable(ParseGraph(graph), {.streams = 1}); });
  };
  EXPECT_EQ(error("input x: step[2, 3]\noutput y = x\n"),
            "[lowering] x is step [2, 3], wants one feature axis");
  EXPECT_EQ(error("index x: step\noutput y = x\n"),
            "[lowering] output 'y' is x, which holds indices, wants numbers");
  EXPECT_EQ(error("parameter w: static[2, 2]\ninput x: step[2]\n"
                  "y: step[2] = matmul(w@1, x)\noutput y = y\n"),
            "[lowering] y reads w@1, wants a matrix without delay");
}

TEST(ExecutableOptions, AreChecked) {
  const Graph graph = ParseGraph("input x: step[1]\noutput y = x\n");
  EXPECT_THROW(Executable(graph, {.streams = -1}), Error);
  EXPECT_THROW(Executable(graph, {.streams = 1, .time_block = -1}), Error);
  EXPECT_THROW(Executable(graph, {.streams = 2}, std::make_shared<StreamPool>(1)), Error);
}

}  // namespace
}  // namespace turbolstm
