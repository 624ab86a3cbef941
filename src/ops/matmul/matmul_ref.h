#pragma once

#include <cstdint>

#include "ops/matmul/matmul.h"

namespace turbolstm::reference {

// The same products in plain loops and float64, which no kernel's rounding can imitate: the truth
// that the fast ones are tested against. Operands that bf16 arithmetic would round must come
// rounded.

// y [M, N] = x [M, K] W^T (transposed: weight [N, K]) or x W (weight [K, N]), + y, + bias.
void MatMul(const ConstRows& x, int64_t m, const MatrixView& weight, bool transposed,
            const float* bias, bool accumulate, double* y);

// dw [M, N] (+)= sum over r of a[r]^T b[r].
void MatMulTransposed(const ConstRows& a, int64_t m, const ConstRows& b, int64_t n, int64_t r,
                      bool accumulate, double* dw);

// sums [N] (+)= sum over r of a[r].
void SumOverRows(const ConstRows& a, int64_t n, int64_t r, bool accumulate, double* sums);

// Element of a row, whatever its dtype.
double Element(const ConstRows& x, int64_t row, int64_t column);

}  // namespace turbolstm::reference
