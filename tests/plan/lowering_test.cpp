// What becomes of the layers that matter: how many stages, and how little memory.

#include <gtest/gtest.h>

#include "base/error.h"
#include "graph/text.h"
#include "plan/comparison.h"
#include "plan/describe.h"
#include "plan/recurrent_graphs.h"

namespace turbolstm {
namespace {

std::string Lowered(const Graph& graph, Precision precision = Precision::kFloat32) {
  const Executable executable(graph, {.precision = precision, .streams = 1});
  return fmt::format("\n{}", Describe(executable.lowered()));
}

constexpr std::string_view kLstm = R"(
input x: step[3]
parameter w_ih: static[8, 3]
parameter w_hh: static[8, 2]
parameter b_ih: static[8]
parameter b_hh: static[8]
%5: step[8] = matmul(w_ih, x)
%6: step[8] = add(%5, b_ih)
%7: step[8] = matmul(w_hh, h@1)
%8: step[8] = add(%7, b_hh)
gates: step[8] = add(%6, %8)
%10: step[2] = slice(gates) size=2
%11: step[2] = slice(gates) begin=2 size=2
%12: step[2] = slice(gates) begin=4 size=2
%13: step[2] = slice(gates) begin=6 size=2
i: step[2] = sigmoid(%10)
f: step[2] = sigmoid(%11)
g: step[2] = tanh(%12)
o: step[2] = sigmoid(%13)
%18: step[2] = mul(f, c@1)
%19: step[2] = mul(i, g)
c: step[2] = add(%18, %19)
%21: step[2] = tanh(c)
h: step[2] = mul(o, %21)
output y = h
)";

// One product over all time with both biases in it; a loop of a product that adds to that, where
// it lies, and of one program. Of the cell state two steps are kept.
TEST(Lowering, LstmForInferenceIsOneProductAndALoopOfTwoStages) {
  EXPECT_EQ(Lowered(ParseGraph(kLstm)), R"(
Hoisted: program b_ih, b_hh -> add#6
TimeParallel: product x -> gates + add#6
GemmLoop: product h@1 -> += gates; program gates[0:2], gates[2:4], gates[4:6], gates[6:8], c@1 -> c, h
add#6: static[8] fp32
gates: step[8] fp32
c: step[2] fp32 ring 2
h: step[2] fp32
)");
}

// Pre-activations, gates and their gradients share one buffer; the gradients that are carried back
// take two steps each. Nothing else is as wide as the gates.
TEST(Lowering, LstmTrainsInThePlaceOfItsGates) {
  EXPECT_EQ(Lowered(WithGradients(ParseGraph(kLstm))), R"(
Hoisted: program b_ih, b_hh -> add#6
TimeParallel: product x -> gates + add#6
GemmLoop: product h@1 -> += gates; program gates[0:2], gates[2:4], gates[4:6], gates[6:8], c@1 -> gates[0:2], gates[2:4], gates[4:6], gates[6:8], c, tanh#21, h
GemmLoop: program tanh#21, gates[0:2], gates[2:4], gates[4:6], gates[6:8], cotangent.y, matmul_transposed#49@1, mul#50@1, c@1 -> gates[6:8], gates[4:6], gates[2:4], gates[0:2], mul#50; product gates -> matmul_transposed#49
TimeParallel: product gates -> d.x
TimeParallel: outer gates, x -> d.w_ih
TimeParallel: outer gates, h@1 -> d.w_hh
TimeParallel: sum_rows gates -> d.b_ih
add#6: static[8] fp32
gates: step[8] fp32
c: step[2] fp32
tanh#21: step[2] fp32
h: step[2] fp32
matmul_transposed#49: step[2] fp32 ring 2
mul#50: step[2] fp32 ring 2
d.x: step[3] fp32
d.w_ih: static[24] fp32
d.w_hh: static[16] fp32
d.b_ih: static[8] fp32
)");
}

// Carried states and gradients, outputs and parameters are fp32, all else is bf16.
TEST(Lowering, LstmInBf16CarriesItsCellStateInFp32) {
  EXPECT_EQ(Lowered(WithGradients(ParseGraph(kLstm)), Precision::kBFloat16), R"(
Hoisted: program b_ih, b_hh -> add#6
TimeParallel: product x -> gates + add#6
GemmLoop: product h@1 -> += gates; program gates[0:2], gates[2:4], gates[4:6], gates[6:8], c@1 -> gates[0:2], gates[2:4], gates[4:6], gates[6:8], c, tanh#21, h
GemmLoop: program tanh#21, gates[0:2], gates[2:4], gates[4:6], gates[6:8], cotangent.y, matmul_transposed#49@1, mul#50@1, c@1 -> gates[6:8], gates[4:6], gates[2:4], gates[0:2], mul#50; product gates -> matmul_transposed#49
TimeParallel: product gates -> d.x
TimeParallel: outer gates, x -> d.w_ih
TimeParallel: outer gates, h@1 -> d.w_hh
TimeParallel: sum_rows gates -> d.b_ih
add#6: static[8] fp32
gates: step[8] bf16
c: step[2] fp32
tanh#21: step[2] bf16
h: step[2] fp32
matmul_transposed#49: step[2] fp32 ring 2
mul#50: step[2] fp32 ring 2
d.x: step[3] fp32
d.w_ih: static[24] fp32
d.w_hh: static[16] fp32
d.b_ih: static[8] fp32
)");
}

// A sum in the place of a sum in the place of a value: the last one says what the place holds.
TEST(Lowering, SumsInOnePlaceHaveTheTypeOfTheLast) {
  const std::string lowered = Lowered(ParseGraph(R"(
input x: step[2]
input i: batch[2]
parameter u: static[2, 2]
parameter v: static[2, 2]
%4: step[2] = matmul(v, x)
%5: step[2] = tanh(x)
%6: step[2] = matmul(u, h@1(init=i))
h: step[2] = add(%6, %4, %5)
y: step[2] = tanh(h)
output y = y
)"),
                                      Precision::kBFloat16);
  EXPECT_NE(lowered.find("product h@1(init=i) -> += h"), std::string::npos) << lowered;
  EXPECT_NE(lowered.find("h: step[2] fp32"), std::string::npos) << lowered;
}

constexpr std::string_view kGru = R"(
input x: step[3]
parameter w_ih: static[6, 3]
parameter w_hh: static[6, 2]
parameter b_ih: static[6]
parameter b_hh: static[6]
%5: step[6] = matmul(w_ih, x)
a: step[6] = add(%5, b_ih)
%7: step[6] = matmul(w_hh, h@1)
b: step[6] = add(%7, b_hh)
one: static[1] = constant() number=1
%10: step[2] = slice(a) size=2
%11: step[2] = slice(b) size=2
%12: step[2] = slice(a) begin=2 size=2
%13: step[2] = slice(b) begin=2 size=2
%14: step[2] = slice(a) begin=4 size=2
%15: step[2] = slice(b) begin=4 size=2
%16: step[2] = add(%10, %11)
r: step[2] = sigmoid(%16)
%18: step[2] = add(%12, %13)
z: step[2] = sigmoid(%18)
%20: step[2] = mul(r, %15)
%21: step[2] = add(%14, %20)
n: step[2] = tanh(%21)
%23: step[2] = sub(one, z)
%24: step[2] = mul(%23, n)
%25: step[2] = mul(z, h@1)
h: step[2] = add(%24, %25)
output y = h
)";

// What the recurrent product makes is needed within its step only.
TEST(Lowering, GruForInferenceKeepsItsRecurrentProductForOneStep) {
  EXPECT_EQ(Lowered(ParseGraph(kGru)), R"(
TimeParallel: product x -> a + b_ih
GemmLoop: product h@1 -> b + b_hh; program a[0:2], b[0:2], a[2:4], b[2:4], b[4:6], a[4:6], h@1 -> h
a: step[6] fp32
b: step[6] fp32 local
h: step[2] fp32
)");
}

// Two of three parts are the same in the gradients of both products' results: the program writes
// them twice, so that each of the two has its parts side by side, where the gates and where the
// recurrent product's results lay. 1 - z is kept by nobody: it is computed again from z.
TEST(Lowering, GruTrainsWithSharedGradientsWrittenTwice) {
  EXPECT_EQ(Lowered(WithGradients(ParseGraph(kGru))), R"(
TimeParallel: product x -> a + b_ih
GemmLoop: product h@1 -> b + b_hh; program a[0:2], b[0:2], a[2:4], b[2:4], b[4:6], a[4:6], h@1 -> a[0:2], a[2:4], a[4:6], h
GemmLoop: program a[2:4], a[4:6], a[0:2], matmul_transposed#48@1, mul#49@1, cotangent.y, h@1, b[4:6] -> b[4:6], a[4:6], a[2:4], b[2:4], a[0:2], b[0:2], mul#49; product a -> matmul_transposed#48
TimeParallel: outer a, h@1 -> d.w_hh
TimeParallel: sum_rows a -> d.b_hh
TimeParallel: product b -> d.x
TimeParallel: outer b, x -> d.w_ih
TimeParallel: sum_rows b -> d.b_ih
a: step[6] fp32
b: step[6] fp32
h: step[2] fp32
matmul_transposed#48: step[2] fp32 ring 2
mul#49: step[2] fp32 ring 2
d.x: step[3] fp32
d.w_ih: static[18] fp32
d.w_hh: static[12] fp32
d.b_ih: static[6] fp32
d.b_hh: static[6] fp32
)");
}

// The second layer's gradients lie where its gates lay, the first layer's where its own did.
TEST(Lowering, EveryLayerTrainsInThePlaceOfItsGates) {
  RecurrentOptions options;
  options.size.input = options.size.hidden = 2;
  options.layers = 2;
  for (const auto& [cell, buffers] : {std::pair{"lstm", 2}, {"gru", 4}}) {
    options.cell = cell;
    const Executable executable(WithGradients(RecurrentGraph(options)), {.streams = 1});
    const int64_t gates = std::string(cell) == "lstm" ? 8 : 6;
    int wide = 0;
    for (const Buffer& buffer : executable.lowered().buffers) {
      wide += buffer.domain == Domain::kStep && buffer.width == gates;
    }
    EXPECT_EQ(wide, buffers) << Describe(executable.lowered());
  }
}

int StepBuffers(const char* graph) {
  const Executable executable(ParseGraph(graph), {.streams = 1});
  int count = 0;
  for (const Buffer& buffer : executable.lowered().buffers) {
    count += buffer.domain == Domain::kStep && buffer.source == BufferSource::kComputed;
  }
  return count;
}

// What e needs has read b: e lies there. d lies where c lay.
TEST(Lowering, AProductLiesWhereNobodyReadsAnyMore) {
  EXPECT_EQ(StepBuffers(R"(
input x: step[2]
parameter w: static[2, 2]
b: step[2] = matmul(w, x)
c: step[2] = matmul(w, b)
d: step[2] = tanh(c)
e: step[2] = matmul(w, d)
output e = e
)"),
            2);
}

// Either product would have to wait for the other, which it does not need.
TEST(Lowering, WhatIsIndependentSharesNoPlace) {
  EXPECT_EQ(StepBuffers(R"(
input x: step[2]
parameter w: static[2, 2]
parameter v: static[2, 2]
a: step[2] = matmul(w, x)
b: step[2] = matmul(v, x)
c: step[2] = matmul(w, a)
d: step[2] = matmul(v, b)
output c = c
output d = d
)"),
            4);
}

// A product by a matrix and one by its transpose in the other direction: one place for both.
TEST(Lowering, PackedWeightsOfATrainingStepLieWhereThoseOfTheForwardPassLay) {
  const auto packed_bytes = [](const Graph& graph) {
    Executable executable(graph, {.streams = 2});
    executable.SetShape(4, 2);
    return executable.packed_bytes();
  };
  RecurrentOptions options;
  options.size.input = options.size.hidden = 64;
  options.layers = 2;
  for (const char* cell : {"lstm", "gru"}) {
    options.cell = cell;
    const Graph forward = RecurrentGraph(options);
    EXPECT_GT(packed_bytes(forward), 0);
    EXPECT_EQ(packed_bytes(WithGradients(forward)), packed_bytes(forward)) << cell;
  }
}

}  // namespace
}  // namespace turbolstm
