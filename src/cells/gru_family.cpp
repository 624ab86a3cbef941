#include "cells/families.h"

namespace turbolstm::cells {

Value Gru(CellScope& cell) {
  const int64_t n = cell.H();
  const Value h = cell.State("h", n);
  const std::vector<Value> p = Split(cell.Named("p", cell.FromInput(3)), 3);
  const Value product = MatMul(cell.Weight("weight_hh", {3 * n, n}), cell.Recurrent(h));
  const std::vector<Value> q = Split(cell.Named("q", cell.PlusBias(product, "bias_hh")), 3);
  const Value r = cell.Named("r", Sigmoid(cell.Clipped(p[0] + q[0])));
  const Value z = cell.Named("z", Sigmoid(cell.Clipped(p[1] + q[1])));
  const Value candidate = cell.Named("n", Tanh(cell.Clipped(p[2] + r * q[2])));
  return cell.Define(h, (1.0 - z) * candidate + z * cell.Past(h));
}

Value GruOriginal(CellScope& cell) {
  const int64_t n = cell.H();
  const Value h = cell.State("h", n);
  const Value from_input = cell.Named("p", cell.FromInput(3));
  const Value u = cell.Weight("weight_hh", {3 * n, n});
  const Value bias = cell.options().bias ? cell.Weight("bias_hh", {3 * n}) : Value();
  // Rows [begin, begin + size) of weight_hh y + bias_hh.
  const auto recurrent = [&](const Value& y, int64_t begin, int64_t size) {
    const Value product = MatMul(Slice(u, begin, size), y);
    return bias.defined() ? product + Slice(bias, begin, size) : product;
  };
  const Value gates = Slice(from_input, 0, 2 * n) + recurrent(cell.Recurrent(h), 0, 2 * n);
  const std::vector<Value> a = Split(cell.Named("a", gates), 2);
  const Value r = cell.Named("r", Sigmoid(cell.Clipped(a[0])));
  const Value z = cell.Named("z", Sigmoid(cell.Clipped(a[1])));
  const Value reset = recurrent(r * cell.Recurrent(h), 2 * n, n);
  const Value candidate = cell.Named("n", Tanh(cell.Clipped(Slice(from_input, 2 * n, n) + reset)));
  return cell.Define(h, (1.0 - z) * candidate + z * cell.Past(h));
}

Value Mgu(CellScope& cell) {
  const int64_t n = cell.H();
  const Value h = cell.State("h", n);
  const std::vector<Value> a = Split(cell.Named("a", cell.FromInput(2)), 2);
  const std::vector<Value> u = Split(cell.Weight("weight_hh", {2 * n, n}), 2);
  const Value f = cell.Named("f", Sigmoid(a[0] + MatMul(u[0], cell.Recurrent(h))));
  const Value candidate = cell.Named("n", Tanh(a[1] + MatMul(u[1], f * cell.Recurrent(h))));
  return cell.Define(h, f * candidate + (1.0 - f) * cell.Past(h));
}

Value TauGru(CellScope& cell) {
  const int64_t n = cell.H();
  const int32_t delay = cell.options().delay;
  const Value h = cell.State("h", n, delay);
  const Value from_input = cell.Named("p", cell.FromInput(4));
  const Value weight = cell.Weight("weight_hh", {4 * n, n});
  const Value near = MatMul(Slice(weight, 0, 3 * n), cell.Recurrent(h));
  const Value far = MatMul(Slice(weight, 3 * n, n), cell.Recurrent(h, delay));
  const std::vector<Value> q = Split(cell.Named("q", Slice(from_input, 0, 3 * n) + near), 3);
  const Value u = cell.Named("u", Tanh(q[0]));
  const Value g = cell.Named("g", Sigmoid(q[1]));
  const Value a = cell.Named("a", Sigmoid(q[2]));
  const Value y = cell.Named("y", Tanh(Slice(from_input, 3 * n, n) + far));
  return cell.Define(h, (1.0 - g) * cell.Past(h) + g * (u + a * y));
}

}  // namespace turbolstm::cells
