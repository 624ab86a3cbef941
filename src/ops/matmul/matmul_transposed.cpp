#include <algorithm>

#include "base/bfloat16.h"
#include "ops/matmul/matmul.h"
#include "ops/matmul/operands.h"

namespace turbolstm {
namespace {

// A block of b's rows, this many panels wide, stays in the second-level cache while groups of a's
// columns pass by; a block of a is packed for all of those panels.
constexpr int64_t kPanelsAtOnce = 16;
constexpr int64_t kGroupsAtOnce = 18;

// From one group of a's columns to the next.
int64_t LeftStride(const MatMulKernels& kernels) {
  return kBlockWords * kernels.rows + kMaxOverrun;
}

struct Gradient {
  const MatMulKernels& kernels;
  int64_t m;
  int64_t n;
  float* dw;  // [m, n]
  int64_t stride;
};

// dw of one block of words, whose panels lie kBlockWords words of the inner dimension apart.
void MultiplyBlock(const Gradient& p, const uint32_t* left, const uint32_t* right, int64_t words,
                   bool add) {
  const int64_t height = p.kernels.rows;
  const int64_t width = p.kernels.panel_columns;
  const MicroKernel micro = p.kernels.micro[height - 1][0];
  alignas(64) float room[kMaxRows * kMaxPanelColumns];
  for (int64_t i = 0; i < p.m; i += height) {
    for (int64_t j = 0; j < p.n; j += width) {
      const uint32_t* a = left + i / height * LeftStride(p.kernels);
      const uint32_t* b = right + j * kBlockWords;
      float* to = p.dw + i * p.stride + j;
      if (i + height <= p.m && j + width <= p.n) {
        micro(a, b, 0, words, to, p.stride, nullptr, add);
        continue;
      }
      micro(a, b, 0, words, room, width, nullptr, false);
      for (int64_t row = 0; row < std::min(height, p.m - i); ++row) {
        for (int64_t c = 0; c < std::min(width, p.n - j); ++c) {
          float& element = to[row * p.stride + c];
          element = add ? room[row * width + c] + element : room[row * width + c];
        }
      }
    }
  }
}

ConstRows Columns(const ConstRows& x, int64_t begin) {
  ConstRows columns = x;
  columns.offset += begin;
  return columns;
}

}  // namespace

void MatMulTransposed(const ConstRows& a, int64_t m, const ConstRows& b, int64_t n, int64_t r,
                      DType arithmetic, bool accumulate, float* dw, int64_t dw_stride) {
  static thread_local WordBuffer left_buffer;
  static thread_local WordBuffer right_buffer;
  CheckRows("a", a.dtype);
  CheckRows("b", b.dtype);
  CheckRows("arithmetic of a gradient", arithmetic);
  const MatMulKernels& kernels =
      ChooseMatMulKernels(arithmetic == DType::kBFloat16 ? BFloat16Words() : WordKind::kFloat32);
  const int64_t left_columns = kGroupsAtOnce * kernels.rows;
  const int64_t right_columns = kPanelsAtOnce * kernels.panel_columns;
  const int64_t words = WordCount(kernels.words, r);
  uint32_t* left = left_buffer.Reserve(kGroupsAtOnce * LeftStride(kernels));
  uint32_t* right = right_buffer.Reserve(right_columns * kBlockWords);
  for (int64_t j = 0; j < n; j += right_columns) {
    const int64_t nc = std::min(right_columns, n - j);
    int64_t w = 0;
    do {
      const int64_t block = std::min(kBlockWords, words - w);
      SpreadRows(kernels, Side::kRight, Columns(b, j), r, nc, w, w + block, right,
                 kBlockWords * kernels.panel_columns);
      for (int64_t i = 0; i < m; i += left_columns) {
        const int64_t mc = std::min(left_columns, m - i);
        SpreadRows(kernels, Side::kLeft, Columns(a, i), r, mc, w, w + block, left,
                   LeftStride(kernels));
        MultiplyBlock({kernels, mc, nc, dw + i * dw_stride + j, dw_stride}, left, right, block,
                      accumulate || w > 0);
      }
      w += block;
    } while (w < words);
  }
}

void SumOverRows(const ConstRows& a, int64_t n, int64_t r, bool accumulate, float* sums) {
  constexpr int64_t kColumns = 256;
  CheckRows("a", a.dtype);
  const MatMulKernels& kernels = ChooseMatMulKernels(WordKind::kFloat32);
  if (!accumulate) std::fill_n(sums, n, 0.0f);
  for (int64_t row = 0; row < r; row += kBlockWords) {
    for (int64_t c = 0; c < n; c += kColumns) {
      const int64_t count = std::min(kColumns, n - c);
      float block[kColumns] = {};
      for (int64_t i = row; i < std::min(row + kBlockWords, r); ++i) {
        const void* from = RowAddress(a, i);
        if (a.dtype == DType::kFloat32) {
          kernels.add_float(static_cast<const float*>(from) + c, count, block);
        } else {
          kernels.add_bfloat16(static_cast<const BFloat16*>(from) + c, count, block);
        }
      }
      kernels.add_float(block, count, sums + c);
    }
  }
}

}  // namespace turbolstm
