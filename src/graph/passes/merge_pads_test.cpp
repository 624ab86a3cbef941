#include "graph/passes/pass_test.h"
#include "graph/passes/passes.h"

namespace turbolstm {
namespace {

TEST(MergePads, MakesAConcatenationOfTheAdjointOfSplit) {
  ExpectRewritten(MergePads, R"(
input a: step[2]
input b: step[3]
%2: step[5] = pad(b) begin=2 size=5
%3: step[5] = pad(a) size=5
y: step[5] = add(%2, %3)
output y = y
)",
                  R"(
input a: step[2]
input b: step[3]
y: step[5] = concat(a, b)
output y = y
)");
}

TEST(MergePads, FillsGapsWithZerosAndKeepsTheOtherOperands) {
  ExpectRewritten(MergePads, R"(
input a: step[1]
input b: step[1]
input x: step[5]
%3: step[5] = pad(a) begin=1 size=5
%4: step[5] = pad(b) begin=3 size=5
y: step[5] = add(%3, x, %4)
output y = y
)",
                  R"(
input a: step[1]
input b: step[1]
input x: step[5]
%3: static[1] = constant()
%4: step[1] = identity(%3)
%5: step[5] = concat(%4, a, %4, b, %4)
y: step[5] = add(%5, x)
output y = y
)");
}

TEST(MergePads, LeavesPadsThatOverlap) {
  const std::string_view graph = R"(
input a: step[2]
input b: step[2]
%2: step[3] = pad(a) size=3
%3: step[3] = pad(b) begin=1 size=3
y: step[3] = add(%2, %3)
output y = y
)";
  ExpectRewritten(MergePads, graph, graph);
}

// A pad [1] in a wider sum is added to every element, not to the first.
TEST(MergePads, LeavesPadsThatTheSumStretches) {
  const std::string_view graph = R"(
input a: step[0]
input x: step[3]
%2: step[1] = pad(a) size=1
y: step[3] = add(%2, x)
output y = y
)";
  ExpectRewritten(MergePads, graph, graph);
}

// The concatenation walks as the sum does, so it would read another step than the pad.
TEST(MergePads, LeavesPadsThatReadAgainstTheWalkOfTheSum) {
  const std::string_view graph = R"(
input a: step[1]
%1: step[2] = pad(a@1) size=2 reverse
%2: step[2] = pad(a@1) begin=1 size=2 reverse
y: step[2] = add(%1, %2)
output y = y
)";
  ExpectRewritten(MergePads, graph, graph);
  ExpectRewritten(MergePads, R"(
input a: step[1]
%1: step[2] = pad(a@1) size=2 reverse
%2: step[2] = pad(a@1) begin=1 size=2 reverse
y: step[2] = add(%1, %2) reverse
output y = y
)",
                  R"(
input a: step[1]
y: step[2] = concat(a@1, a@1) reverse
output y = y
)");
}

TEST(MergePads, LeavesSumsOfParameters) {
  const std::string_view graph = R"(
parameter a: static[1]
parameter b: static[1]
%2: static[2] = pad(a) size=2
%3: static[2] = pad(b) begin=1 size=2
y: static[2] = add(%2, %3)
output y = y
)";
  ExpectRewritten(MergePads, graph, graph);
}

}  // namespace
}  // namespace turbolstm
