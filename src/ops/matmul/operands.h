#pragma once

#include <cstdint>
#include <string_view>

#include "ops/matmul/kernels.h"
#include "ops/matmul/matmul.h"

namespace turbolstm {

// Turns rows of numbers into the operand layouts of the micro-kernels (kernels.h).

inline int64_t CeilDiv(int64_t x, int64_t y) {
  return (x + y - 1) / y;
}

// Words that `count` numbers along the inner dimension take.
inline int64_t WordCount(WordKind kind, int64_t count) {
  return kind == WordKind::kBFloat16Pair ? CeilDiv(count, 2) : count;
}

// to[w * stride + i] = word w of x's row `row + i`, for i < rows <= kernels.transpose_rows and the
// words of x's first k columns. Writes up to kernels.transpose_rows words for the last w too.
void TransposeRows(const MatMulKernels& kernels, const ConstRows& x, int64_t row, int rows,
                   int64_t k, uint32_t* to, int64_t stride);

enum class Side { kLeft, kRight };

// Word rows [w_begin, w_end) of x [r, columns] spread over panels as wide as a micro-kernel's rows
// (left) or panel (right): word row w goes to panels + (w - w_begin) * width, panel by panel.
void SpreadRows(const MatMulKernels& kernels, Side side, const ConstRows& x, int64_t r,
                int64_t columns, int64_t w_begin, int64_t w_end, uint32_t* panels,
                int64_t panel_stride);

// Throws Error naming the operand unless its dtype is float32 or bfloat16.
void CheckRows(std::string_view operand, DType dtype);

// Address of column 0 of a row.
const void* RowAddress(const ConstRows& x, int64_t row);

}  // namespace turbolstm
