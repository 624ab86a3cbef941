#include "graph/passes/pass_test.h"
#include "graph/passes/passes.h"

namespace turbolstm {
namespace {

// W x + b_i + (U h + b_h) of PyTorch's cells: one bias, added before the loop.
TEST(HoistInvariantSums, AddsBiasesToEachOtherAndTheProjectionBeforeTheLoop) {
  ExpectRewritten(HoistInvariantSums, R"(
input x: step[2]
parameter w: static[3, 2]
parameter u: static[3, 3]
parameter bi: static[3]
parameter bh: static[3]
%5: step[3] = matmul(w, x)
%6: step[3] = add(%5, bi)
%7: step[3] = matmul(u, h@1)
%8: step[3] = add(%7, bh)
%9: step[3] = add(%6, %8)
h: step[3] = tanh(%9)
output y = h
)",
                  R"(
input x: step[2]
parameter w: static[3, 2]
parameter u: static[3, 3]
parameter bi: static[3]
parameter bh: static[3]
%5: step[3] = matmul(w, x)
%6: static[3] = add(bi, bh)
%7: step[3] = add(%5, %6)
%8: step[3] = matmul(u, h@1)
%9: step[3] = add(%8, %7)
h: step[3] = tanh(%9)
output y = h
)");
}

TEST(HoistInvariantSums, KeepsASumThatOthersReadToo) {
  const std::string_view graph = R"(
input x: step[2]
parameter p: static[2]
%2: step[2] = add(x, p)
%3: step[2] = add(%2, h@1)
h: step[2] = tanh(%3)
output y = h
output z = %2
)";
  ExpectRewritten(HoistInvariantSums, graph, graph);
}

TEST(HoistInvariantSums, KeepsASumThatStretches) {
  const std::string_view graph = R"(
input x: step[2]
input a: step[1]
input b: step[1]
%3: step[1] = add(a, b)
y: step[2] = add(x, %3)
output y = y
)";
  ExpectRewritten(HoistInvariantSums, graph, graph);
}

// The inner sum reads the step behind it, the outer one the step before.
TEST(HoistInvariantSums, KeepsASumThatWalksTheOtherWay) {
  const std::string_view graph = R"(
input x: step[2]
%1: step[2] = add(x@1, x) reverse
y: step[2] = add(x@1, %1)
output y = y
)";
  ExpectRewritten(HoistInvariantSums, graph, graph);
}

// A delayed batch value is a step value, also in a sum of its own before the loop.
TEST(HoistInvariantSums, AddsDelayedSmallerDomainsBeforeTheLoop) {
  ExpectRewritten(HoistInvariantSums, R"(
input x: step[2]
input b: batch[2]
%2: step[2] = add(h@1, x, b@1)
h: step[2] = tanh(%2)
output y = h
)",
                  R"(
input x: step[2]
input b: batch[2]
%2: step[2] = add(x, b@1)
%3: step[2] = add(h@1, %2)
h: step[2] = tanh(%3)
output y = h
)");
}

}  // namespace
}  // namespace turbolstm
