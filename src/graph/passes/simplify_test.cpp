#include "graph/passes/pass_test.h"
#include "graph/passes/passes.h"

namespace turbolstm {
namespace {

TEST(Simplify, MergesEqualNodesAlsoThroughTheirOperands) {
  ExpectRewritten(Simplify, R"(
input x: step[2]
%1: step[2] = tanh(x)
%2: step[2] = tanh(x)
%3: step[2] = neg(%1)
%4: step[2] = neg(%2)
y: step[2] = mul(%3, %4)
output y = y
)",
                  R"(
input x: step[2]
%1: step[2] = tanh(x)
%2: step[2] = neg(%1)
y: step[2] = mul(%2, %2)
output y = y
)");
}

TEST(Simplify, KeepsNodesThatDifferInDelayDirectionInitialValueOrAttributes) {
  const std::string_view graph = R"(
input x: step[2]
input h: batch[2]
%2: step[2] = tanh(x@1)
%3: step[2] = tanh(x@2)
%4: step[2] = tanh(x@1) reverse
%5: step[2] = tanh(x@1(init=h))
%6: step[2] = tanh(x@1(adjoint))
%7: step[1] = slice(x) size=1
%8: step[1] = slice(x) begin=1 size=1
%9: step[2] = random_mask() number=0.5
%10: step[2] = random_mask() number=0.5 site=1
%11: step[2] = random_mask() number=0.5 mean=0.5
y: step[24] = concat(%2, %3, %4, %5, %6, %7, %8, %9, %10, %11, x, x, x)
output y = y
)";
  ExpectRewritten(Simplify, graph, graph);
}

TEST(Simplify, ForwardsCopiesSumsOfOneAndProductsWithOne) {
  ExpectRewritten(Simplify, R"(
input x: step[2]
one: static[1] = constant() number=1
%2: step[2] = identity(x)
%3: step[2] = add(%2)
%4: step[2] = concat(%3)
%5: step[2] = mul(one, %4)
%6: step[2] = mul(%5, one)
y: step[2] = tanh(%6)
output y = y
)",
                  R"(
input x: step[2]
y: step[2] = tanh(x)
output y = y
)");
}

TEST(Simplify, KeepsCopiesThatDelayOrBroadcast) {
  const std::string_view graph = R"(
input x: step[1]
input b: batch[1]
%2: step[1] = identity(x@1)
%3: step[2] = identity(x)
%4: step[1] = identity(b)
y: step[4] = concat(%2, %3, %4)
output y = y
)";
  ExpectRewritten(Simplify, graph, graph);
}

TEST(Simplify, DropsDeadNodesButNoInputsOrParameters) {
  ExpectRewritten(Simplify, R"(
input x: step[2]
input unused: batch[3]
parameter w: static[2]
%3: step[2] = tanh(x)
h: step[2] = tanh(%5)
%5: step[2] = add(x, h@1)
y: step[2] = neg(x)
output y = y
)",
                  R"(
input x: step[2]
input unused: batch[3]
parameter w: static[2]
y: step[2] = neg(x)
output y = y
)");
}

TEST(Simplify, MakesOneNodeOfTwoEqualOutputs) {
  ExpectRewritten(Simplify, R"(
input x: step[2]
a: step[2] = tanh(x)
b: step[2] = tanh(x)
output a = a
output b = b
)",
                  R"(
input x: step[2]
a: step[2] = tanh(x)
output a = a
output b = a
)");
}

TEST(Simplify, UnwindsStatesOfALoop) {
  ExpectRewritten(Simplify, R"(
input x: step[2]
h: step[2] = identity(%3)
%2: step[2] = add(x, h@1)
%3: step[2] = tanh(%2)
output y = h
)",
                  R"(
input x: step[2]
%1: step[2] = add(x, h@1)
h: step[2] = tanh(%1)
output y = h
)");
}

}  // namespace
}  // namespace turbolstm
