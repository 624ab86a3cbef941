#include "cells/families.h"

namespace turbolstm::cells {
namespace {

struct LstmGates {
  Value i, f, g, o;
};

Value SigmoidGate(CellScope& cell, const std::string& name, const Value& a) {
  return cell.Named(name, Sigmoid(cell.Clipped(a)));
}

Value ForgetGate(CellScope& cell, const Value& i, const Value& a) {
  return cell.CouplesGates() ? cell.Named("f", 1.0 - i) : SigmoidGate(cell, "f", a);
}

LstmGates ActivateGates(CellScope& cell, const Value& packed) {
  cell.InitForgetGate(1);
  const std::vector<Value> a = Split(cell.Named("a", packed), 4);
  const Value i = SigmoidGate(cell, "i", a[0]);
  return {i, ForgetGate(cell, i, a[1]), cell.Named("g", Tanh(cell.Clipped(a[2]))),
          SigmoidGate(cell, "o", a[3])};
}

}  // namespace

Value Lstm(CellScope& cell) {
  const Value h = cell.State("h", cell.H());
  const Value c = cell.State("c", cell.H());
  const auto [i, f, g, o] = ActivateGates(cell, cell.Gates(4, h));
  cell.Define(c, f * cell.Past(c) + i * g);
  return cell.Define(h, o * Tanh(cell.Clipped(c)));
}

Value LstmProjection(CellScope& cell) {
  const int64_t projection = cell.options().projection;
  const Value h = cell.State("h", projection);
  const Value c = cell.State("c", cell.H());
  const auto [i, f, g, o] = ActivateGates(cell, cell.Gates(4, h));
  cell.Define(c, f * cell.Past(c) + i * g);
  return cell.Define(
      h, MatMul(cell.Weight("weight_hr", {projection, cell.H()}), o * Tanh(cell.Clipped(c))));
}

Value PeepholeLstm(CellScope& cell) {
  const Value h = cell.State("h", cell.H());
  const Value c = cell.State("c", cell.H());
  const std::vector<Value> a = Split(cell.Named("a", cell.Gates(4, h)), 4);
  cell.InitForgetGate(1);
  const std::vector<Value> p = Split(cell.Weight("weight_ph", {3 * cell.H()}), 3);
  const Value i = SigmoidGate(cell, "i", a[0] + p[0] * cell.Past(c));
  const Value f = ForgetGate(cell, i, a[1] + p[1] * cell.Past(c));
  const Value g = cell.Named("g", Tanh(cell.Clipped(a[2])));
  cell.Define(c, f * cell.Past(c) + i * g);
  const Value o = SigmoidGate(cell, "o", a[3] + p[2] * c);
  return cell.Define(h, o * Tanh(cell.Clipped(c)));
}

Value LayerNormLstm(CellScope& cell) {
  const int64_t n = cell.H();
  const Value h = cell.State("h", n);
  const Value c = cell.State("c", n);
  const auto norm = [&](const Value& x, const std::string& where) {
    const int64_t size = x.features();
    const Value gain = cell.Parameter("gain_" + where, {size}, Initializer::Constant(1.0));
    const Value bias = cell.options().bias
                           ? cell.Parameter("bias_" + where, {size}, Initializer::Constant(0.0))
                           : cell.Constant(0.0);
    return LayerNorm(x, gain, bias);
  };
  const Value input = MatMul(cell.Weight("weight_ih", {4 * n, cell.options().input}), cell.x());
  const Value state = MatMul(cell.Weight("weight_hh", {4 * n, n}), cell.Recurrent(h));
  const auto [i, f, g, o] = ActivateGates(cell, norm(input, "ih") + norm(state, "hh"));
  cell.Define(c, f * cell.Past(c) + i * g);
  return cell.Define(h, o * Tanh(cell.Clipped(norm(c, "c"))));
}

Value Slstm(CellScope& cell) {
  const int64_t block = cell.H() / cell.options().heads;
  const Value h = cell.State("h", cell.H());
  // Elements of c, n and m belong together: zoneout would tear them apart.
  const Value c = cell.State("c", cell.H(), 1, false);
  const Value n = cell.State("n", cell.H(), 1, false);
  const Value m = cell.State("m", cell.H(), 1, false);
  // One block per gate and head, so that the result stands gate by gate.
  const Value weight = cell.Weight("weight_hh", {4 * cell.options().heads, block, block});
  const Value before = cell.Recurrent(h);
  const Value product = MatMul(weight, Concat({before, before, before, before}));
  const std::vector<Value> a = Split(cell.Named("a", cell.FromInput(4) + product), 4);
  cell.InitForgetGate(1);
  const Value forget = cell.Named("l", cell.Past(m) + LogSigmoid(a[1]));
  // Without a past (n = 0) only the input scales: exp would underflow beside a large l.
  cell.Define(m, Select(cell.Past(n), Max(a[0], forget), a[0]));
  const Value i = cell.Named("i", Exp(a[0] - m));
  const Value f = cell.Named("f", Exp(Min(forget - m, cell.Constant(0.0))));
  const Value z = cell.Named("z", Tanh(a[2]));
  const Value o = cell.Named("o", Sigmoid(a[3]));
  cell.Define(c, f * cell.Past(c) + i * z);
  cell.Define(n, f * cell.Past(n) + i);
  return cell.Define(h, o * (c / n));
}

}  // namespace turbolstm::cells
