#include "cells/equations.h"

#include <gtest/gtest.h>

namespace turbolstm {
namespace {

std::string EquationsOf(std::string_view cell) {
  return PrintEquations(FindCell(cell));
}

TEST(Equations, Lstm) {
  EXPECT_EQ(EquationsOf("lstm"),
            "a = weight_ih @ x + bias_ih + weight_hh @ h[t-1] + bias_hh\n"
            "i = sigmoid(a[0:H])\n"
            "f = sigmoid(a[H:2H])\n"
            "g = tanh(a[2H:3H])\n"
            "o = sigmoid(a[3H:4H])\n"
            "c = f * c[t-1] + i * g\n"
            "h = o * tanh(c)\n");
}

TEST(Equations, Gru) {
  EXPECT_EQ(EquationsOf("gru"),
            "p = weight_ih @ x + bias_ih\n"
            "q = weight_hh @ h[t-1] + bias_hh\n"
            "r = sigmoid(p[0:H] + q[0:H])\n"
            "z = sigmoid(p[H:2H] + q[H:2H])\n"
            "n = tanh(p[2H:3H] + r * q[2H:3H])\n"
            "h = (1 - z) * n + z * h[t-1]\n");
}

TEST(Equations, ProductsInsideProductsKeepTheirParentheses) {
  EXPECT_EQ(EquationsOf("mgu"),
            "a = weight_ih @ x + bias_ih\n"
            "f = sigmoid(a[0:H] + weight_hh[0:H] @ h[t-1])\n"
            "n = tanh(a[H:2H] + weight_hh[H:2H] @ (f * h[t-1]))\n"
            "h = f * n + (1 - f) * h[t-1]\n");
}

TEST(Equations, LayerNormalisationIsOneWord) {
  EXPECT_NE(EquationsOf("layer_norm_lstm").find("h = o * tanh(normalize(c) * gain_c + bias_c)\n"),
            std::string::npos);
}

TEST(Equations, OperandsThatNeedParenthesesGetThem) {
  Graph graph;
  Builder b(&graph);
  const Value x = b.Input("x", Domain::kStep, {3});
  const Value y = b.Input("y", Domain::kStep, {3});
  (x - (y - x)).Named("p");
  (x * (y / x)).Named("q");
  (x / (y * x)).Named("r");
  ((x + y) * -x).Named("s");
  (x + y).Previous().Named("u");
  Exp((x + y).Previous()).Named("v");
  EXPECT_EQ(PrintEquations(graph),
            "p = x - (y - x)\n"
            "q = x * (y / x)\n"
            "r = x / (y * x)\n"
            "s = (x + y) * -x\n"
            "u = x + y\n"
            "v = exp((x + y)[t-1])\n");
}

}  // namespace
}  // namespace turbolstm
