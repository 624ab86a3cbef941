#include "graph/passes/pass_test.h"
#include "graph/passes/passes.h"

namespace turbolstm {
namespace {

TEST(PackProducts, StacksTheWeightsOfProductsWithOneOperand) {
  ExpectRewritten(PackProducts, R"(
input x: step[2]
parameter u: static[2, 2]
parameter v: static[2, 2]
%3: step[2] = matmul(u, h@1)
%4: step[2] = matmul(v, h@1)
%5: step[2] = add(x, %3)
%6: step[2] = mul(%5, %4)
h: step[2] = tanh(%6)
output y = h
)",
                  R"(
input x: step[2]
parameter u: static[2, 2]
parameter v: static[2, 2]
%3: static[4, 2] = concat(u, v)
%4: step[4] = matmul(%3, h@1)
%5: step[2] = slice(%4) size=2
%6: step[2] = add(x, %5)
%7: step[2] = slice(%4) begin=2 size=2
%8: step[2] = mul(%6, %7)
h: step[2] = tanh(%8)
output y = h
)");
}

TEST(PackProducts, LeavesOperandsThatDiffer) {
  const std::string_view graph = R"(
input x: step[2]
input i: batch[2]
parameter u: static[2, 2]
%3: step[2] = matmul(u, h@1)
%4: step[2] = matmul(u, h@2)
%5: step[2] = matmul(u, h@1(init=i))
%6: step[2] = add(x, %3, %4, %5)
h: step[2] = tanh(%6)
output y = h
)";
  ExpectRewritten(PackProducts, graph, graph);
}

TEST(PackProducts, LeavesBlockDiagonalWeightsAndProductsOutsideLoops) {
  const std::string_view graph = R"(
input x: step[2]
parameter u: static[2, 2]
parameter v: static[2, 2]
parameter a: static[2, 1, 1]
parameter b: static[2, 1, 1]
%5: step[2] = matmul(u, x)
%6: step[2] = matmul(v, x)
%7: step[2] = add(%5, %6)
%8: step[2] = matmul(a, h@1)
%9: step[2] = matmul(b, h@1)
%10: step[2] = add(%7, %8, %9)
h: step[2] = tanh(%10)
output y = h
)";
  ExpectRewritten(PackProducts, graph, graph);
}

}  // namespace
}  // namespace turbolstm
