#include "cells/families.h"

namespace turbolstm::cells {

Value RnnTanh(CellScope& cell) {
  const Value h = cell.State("h", cell.H());
  return cell.Define(h, Tanh(cell.Clipped(cell.Gates(1, h))));
}

Value RnnRelu(CellScope& cell) {
  const Value h = cell.State("h", cell.H());
  return cell.Define(h, Relu(cell.Clipped(cell.Gates(1, h))));
}

Value IndRnn(CellScope& cell) {
  const Value h = cell.State("h", cell.H());
  const Value u = cell.Weight("weight_hh", {cell.H()});
  return cell.Define(h, Relu(cell.FromInput(1) + u * cell.Recurrent(h)));
}

Value Trnn(CellScope& cell) {
  const Value h = cell.State("h", cell.H());
  const Value weight = cell.Weight("weight_ih", {2 * cell.H(), cell.options().input});
  const std::vector<Value> a = Split(cell.Named("a", MatMul(weight, cell.x())), 2);
  const Value f = cell.Named("f", Sigmoid(cell.PlusBias(a[0], "bias_ih")));
  return cell.Define(h, f * cell.Past(h) + (1.0 - f) * a[1]);
}

Value Scrn(CellScope& cell) {
  // Mikolov et al. fix the share of the old context.
  constexpr double kKeep = 0.95;
  const int64_t n = cell.H();
  const Value h = cell.State("h", n);
  const Value q = cell.State("q", n);
  const std::vector<Value> a = Split(cell.Named("a", cell.FromInput(2)), 2);
  cell.Define(q, (1.0 - kKeep) * a[0] + kKeep * cell.Past(q));
  const std::vector<Value> u = Split(cell.Weight("weight_hh", {2 * n, n}), 2);
  const Value context = MatMul(cell.Weight("weight_ch", {2 * n, n}), q);
  const std::vector<Value> v = Split(cell.Named("v", context), 2);
  const Value k = cell.Named("k", Sigmoid(a[1] + MatMul(u[0], cell.Recurrent(h)) + v[0]));
  return cell.Define(h, Tanh(MatMul(u[1], k) + v[1]));
}

}  // namespace turbolstm::cells
