// Small graphs where a careless plan goes wrong, each under every plan against the interpreter.

#include <gtest/gtest.h>

#include "graph/text.h"
#include "plan/comparison.h"
#include "testing/random_bindings.h"

namespace turbolstm {
namespace {

struct Case {
  const char* name;
  const char* graph;
};

// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest finds it by this name.
void PrintTo(const Case& one, std::ostream* out) {
  *out << one.name;
}

const Case kCases[] = {
    // A value and a slice of it, as wide as nothing else, in one program.
    {"SliceOfItsOwnProgram", R"(
input x: step[4]
a: step[4] = tanh(x)
first: step[1] = slice(a) size=1
y: step[4] = mul(a, first)
output y = y
)"},
    {"SliceOfItsOwnProgramInALoop", R"(
input x: step[4]
h: step[4] = identity(y)
a: step[4] = add(x, h@1)
first: step[1] = slice(a) size=1
y: step[4] = tanh(%5)
%5: step[4] = mul(a, first)
output y = h
)"},
    {"ConstantAsInitialValue", R"(
input x: step[1]
one: static[1] = constant() number=1
h: step[1] = tanh(%3)
%3: step[1] = add(x, h@1(init=one))
output y = h
)"},
    // The first column is read as a broadcast after others of its row have been overwritten.
    {"BroadcastOfAnOperandThatDies", R"(
input x: step[300]
parameter w: static[300, 300]
p: step[300] = matmul(w, x)
first: step[1] = slice(p) size=1
sum: step[300] = add(p, first)
y: step[300] = tanh(sum)
parameter v: static[2, 300]
z: step[2] = matmul(v, y)
output z = z
)"},
    // The concatenation may lie where `wide` lay, but not before the delayed reader has been there.
    {"DelayedReaderOfWhatIsOverwritten", R"(
input x: step[4]
parameter w: static[4, 4]
parameter v: static[3, 4]
wide: step[4] = matmul(w, x)
late: step[4] = tanh(wide@1)
a: step[2] = slice(wide) size=2
b: step[2] = slice(wide) begin=2 size=2
c: step[2] = mul(a, b)
d: step[2] = sub(c, b)
both: step[4] = concat(c, d)
y: step[3] = matmul(v, both)
z: step[3] = matmul(v, late)
output y = y
output z = z
)"},
    {"InitialValueThatIsOverwritten", R"(
input x: step[4]
input b: batch[4]
parameter w: static[4, 4]
parameter v: static[3, 4]
wide: batch[4] = matmul(w, b)
h: step[4] = tanh(%6)
%6: step[4] = add(x, h@1(init=wide))
e: batch[2] = slice(wide) size=2
f: batch[2] = slice(wide) begin=2 size=2
c: batch[2] = mul(e, f)
d: batch[2] = sub(c, f)
both: batch[4] = concat(c, d)
y: batch[3] = matmul(v, both)
output h = h
output y = y
)"},
    {"OneInitialValueUnderTwoStrides", R"(
input x: step[4]
input h: batch[12]
a: step[2] = slice(x) size=2
ia: batch[4] = slice(h) size=4
ix: batch[8] = slice(h) size=8
late_a: step[2] = identity(a@2(init=ia))
late_x: step[4] = identity(x@2(init=ix))
first: step[2] = slice(late_x) size=2
y: step[2] = sub(late_a, first)
output y = y
)"},
    {"ProductsOfSmallerDomains", R"(
input b: batch[3]
parameter p: static[3]
parameter w: static[2, 3]
y: step[2] = matmul(w, p)
z: batch[2] = matmul(w, p)
u: step[2] = matmul(w, b)
s: step[2] = slice(p) size=2
t: step[3] = softmax(p)
q: batch[5] = pad(p) begin=1 size=5
r: step[6] = concat(p, b)
output y = y
output z = z
output u = u
output s = s
output t = t
output q = q
output r = r
)"},
    {"SourcesOfLargerDomains", R"(
parameter w: static[2, 1]
one: step[1] = constant() number=1
rows: batch[1] = row_count() domain=step
lengths: step[1] = lengths()
y: step[2] = matmul(w, one)
z: batch[2] = matmul(w, rows)
u: step[2] = matmul(w, lengths)
output y = y
output z = z
output u = u
)"},
    {"DelayedSmallerDomains", R"(
input b: batch[3]
input h: batch[6]
parameter p: static[3]
parameter q: static[1]
parameter w: static[2, 3]
one: static[1] = constant() number=1
y: step[3] = add(b@1, p@2(init=h))
z: step[3] = mul(q@1, b@2)
u: step[2] = matmul(w, b@1) reverse
v: step[2] = matmul(w, p@2(init=h))
first: step[1] = sub(one, one@1)
c: step[6] = concat(p@1, b@3)
s: step[3] = softmax(p@2(init=h)) reverse
output y = y
output z = z
output u = u
output v = v
output first = first
output c = c
output s = s
)"},
    {"DelayedSmallerDomainsInALoop", R"(
input x: step[3]
input b: batch[3]
parameter p: static[3]
parameter w: static[3, 3]
h: step[3] = tanh(%5)
%5: step[3] = add(x, %6, b@2, p@1)
%6: step[3] = matmul(w, h@3)
output h = h
)"},
    {"RingsOfSeveralStepsBothWays", R"(
input x: step[2]
parameter w: static[2, 2]
parameter i: static[6]
f: step[2] = tanh(%4)
%4: step[2] = add(x, %5, f@1(init=j))
%5: step[2] = matmul(w, f@3(init=i))
parameter j: static[2]
r: step[2] = tanh(%8) reverse
%8: step[2] = add(x, %9, r@1(init=j)) reverse
%9: step[2] = matmul(w, r@3(init=i)) reverse
sum: static[2] = sum_rows(%13)
%13: step[2] = mul(%14, %15)
%14: step[2] = identity(x@1)
%15: step[2] = identity(x@2) reverse
g: step[2] = tanh(%17)
%17: step[2] = add(x, g@4, g@2)
output f = f
output r = r
output sum = sum
output g = g
)"},
    {"NothingWide", R"(
input x: step[0]
input b: batch[0]
input i: batch[0]
parameter w: static[3, 0]
parameter v: static[0, 3]
index id: step
y: step[3] = matmul(w, x)
z: step[0] = matmul(v, y)
h: step[0] = tanh(%9)
%9: step[0] = add(x, h@1(init=i), z)
s: batch[0] = sum_time(h)
r: static[0] = sum_rows(h)
o: static[3, 0] = outer(y, x)
p: static[0, 3] = outer(x, y)
a: step[1] = row_sum(x)
c: step[3] = concat(x, y, h)
d: step[2] = pad(x) size=2
e: step[0] = slice(y) begin=3 size=0
f: batch[0] = final(h@1(init=i))
l: step[0] = softmax(x)
parameter table: static[4, 0]
g: step[0] = gather(table, id)
t: static[4, 0] = scatter_add(id, g) size=4
output y = y
output z = z
output h = h
output s = s
output r = r
output o = o
output p = p
output a = a
output c = c
output d = d
output e = e
output f = f
output l = l
output g = g
output t = t
)"},
    {"OneNodeAsTwoOutputsAndInputsAsOutputs", R"(
input x: step[2]
input b: batch[2]
parameter p: static[2]
y: step[2] = add(x, b, p)
output a = y
output b = y
output c = x
output d = b
output e = p
output f = x
)"},
    {"ViewsOfViews", R"(
input x: step[6]
parameter w: static[6, 6]
parameter i: static[6]
wide: step[6] = matmul(w, x)
a: step[5] = slice(wide) begin=1 size=5
b: step[5] = identity(a@1)
c: step[3] = slice(b) begin=1 size=3
d: step[3] = identity(c@2)
e: step[2] = slice(d) begin=1 size=2
f: step[6] = identity(wide@1(init=i)) reverse
g: step[4] = slice(f) begin=2 size=4
k: step[2] = slice(g) begin=1 size=2
y: step[2] = add(e, k)
output y = y
)"},
    {"DelayedPartsOfConcatenations", R"(
input x: step[4]
parameter w: static[4, 4]
u: step[4] = matmul(w, x)
a: step[4] = tanh(u)
b: step[4] = sigmoid(u)
both: step[12] = concat(a, b, a)
again: step[8] = concat(b, a@2)
y: step[4] = mul(a@1, b@2) reverse
z: step[12] = tanh(both@1)
output both = both
output again = again
output y = y
output z = z
)"},
    {"IndicesWithDelay", R"(
index id: step
index fixed: batch
parameter table: static[4, 2]
a: step[2] = gather(table, id@2) reverse
b: step[3] = one_hot(id@1) size=3
c: step[1] = cross_entropy(a, id@1)
d: static[4, 2] = scatter_add(id@1, a) size=4
e: static[4, 2] = scatter_add(fixed, a) size=4
f: step[2] = gather(table, fixed@1)
output a = a
output b = b
output c = c
output d = d
output e = e
output f = f
)"},
};

class CornerCases : public ::testing::TestWithParam<Case> {};

TEST_P(CornerCases, AgreeWithTheInterpreter) {
  const Graph graph = ParseGraph(GetParam().graph, GetParam().name);
  for (const auto& [steps, batch] : {std::pair{5, 3}, {1, 1}, {0, 2}, {3, 0}, {6, 4}}) {
    for (const bool ragged : {false, true}) {
      for (const double resets : {0.0, 0.3}) {
        const Bindings bindings = RandomBindings(
            graph, 11, {.steps = steps, .batch = batch, .ragged = ragged, .resets = resets});
        for (const ExecutableOptions& plan : VerifiedPlans()) {
          EXPECT_EQ(Differences(graph, bindings, Execute(graph, bindings, plan), kFloat32Tolerance),
                    "")
              << "T " << steps << " B " << batch << (ragged ? " ragged" : "") << " resets "
              << resets << " block " << plan.time_block;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Graphs, CornerCases, ::testing::ValuesIn(kCases),
                         [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace turbolstm
