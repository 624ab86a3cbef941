#include "ops/matmul/matmul_ref.h"

#include "base/bfloat16.h"
#include "ops/matmul/operands.h"

namespace turbolstm::reference {

double Element(const ConstRows& x, int64_t row, int64_t column) {
  const void* address = RowAddress(x, row);
  if (x.dtype == DType::kFloat32) return static_cast<const float*>(address)[column];
  return static_cast<float>(static_cast<const BFloat16*>(address)[column]);
}

void MatMul(const ConstRows& x, int64_t m, const MatrixView& weight, bool transposed,
            const float* bias, bool accumulate, double* y) {
  const int64_t n = transposed ? weight.rows : weight.columns;
  const int64_t k = transposed ? weight.columns : weight.rows;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = (accumulate ? y[i * n + j] : 0.0) + (bias == nullptr ? 0.0 : bias[j]);
      for (int64_t l = 0; l < k; ++l) {
        const int64_t at = transposed ? j * weight.stride + l : l * weight.stride + j;
        sum += Element(x, i, l) * weight.data[at];
      }
      y[i * n + j] = sum;
    }
  }
}

void MatMulTransposed(const ConstRows& a, int64_t m, const ConstRows& b, int64_t n, int64_t r,
                      bool accumulate, double* dw) {
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = accumulate ? dw[i * n + j] : 0.0;
      for (int64_t row = 0; row < r; ++row) sum += Element(a, row, i) * Element(b, row, j);
      dw[i * n + j] = sum;
    }
  }
}

void SumOverRows(const ConstRows& a, int64_t n, int64_t r, bool accumulate, double* sums) {
  for (int64_t j = 0; j < n; ++j) {
    double sum = accumulate ? sums[j] : 0.0;
    for (int64_t row = 0; row < r; ++row) sum += Element(a, row, j);
    sums[j] = sum;
  }
}

}  // namespace turbolstm::reference
