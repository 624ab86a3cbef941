#include "ops/matmul/operands.h"

#include <algorithm>

#include "base/bfloat16.h"
#include "base/error.h"

namespace turbolstm {
namespace {

// Most rows that a transpose takes at a time.
constexpr int kMaxTransposeRows = 16;
constexpr int64_t kPanelsAtOnce = 8;

// x's columns [begin, begin + count) of one row as words: where they are if they are words already,
// else converted into `room`.
const uint32_t* RowWords(const MatMulKernels& kernels, const ConstRows& x, int64_t row,
                         int64_t begin, int64_t count, uint32_t* room) {
  const void* address = RowAddress(x, row);
  if (x.dtype == DType::kFloat32) {
    const float* from = static_cast<const float*>(address) + begin;
    if (kernels.words == WordKind::kFloat32) return reinterpret_cast<const uint32_t*>(from);
    kernels.convert_float(from, count, room);
    return room;
  }
  const BFloat16* from = static_cast<const BFloat16*>(address) + begin;
  const bool pairs = kernels.words == WordKind::kBFloat16Pair && count % 2 == 0;
  const bool aligned = reinterpret_cast<uintptr_t>(from) % alignof(uint32_t) == 0;
  if (pairs && aligned) return reinterpret_cast<const uint32_t*>(from);
  kernels.convert_bfloat16(from, count, room);
  return room;
}

// Rows are short pieces far apart, which the CPU does not foresee. Word rows ahead of use:
constexpr int64_t kFetchAhead = 8;

void FetchRow(const ConstRows& x, int64_t row, int64_t r, int64_t columns, size_t size) {
  if (row >= r) return;
  const char* address = static_cast<const char*>(RowAddress(x, row));
  const int64_t bytes = columns * static_cast<int64_t>(size);
  for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(address + at);
}

template <typename T>
void Spread(SpreadRow<T> spread, WordKind kind, const ConstRows& x, int64_t r, int64_t columns,
            int64_t w_begin, int64_t w_end, int64_t width, uint32_t* panels, int64_t panel_stride) {
  const int64_t rows_per_word = kind == WordKind::kBFloat16Pair ? 2 : 1;
  for (int64_t w = w_begin; w < w_end; ++w) {
    const int64_t row = w * rows_per_word;
    const T* first = static_cast<const T*>(RowAddress(x, row));
    const bool paired = rows_per_word == 2 && row + 1 < r;
    const T* second = paired ? static_cast<const T*>(RowAddress(x, row + 1)) : nullptr;
    FetchRow(x, row + kFetchAhead * rows_per_word, r, columns, sizeof(T));
    if (paired) FetchRow(x, row + 1 + kFetchAhead * rows_per_word, r, columns, sizeof(T));
    spread(first, second, columns, panels + (w - w_begin) * width, panel_stride);
  }
}

}  // namespace

void CheckRows(std::string_view operand, DType dtype) {
  TL_CHECK(dtype == DType::kFloat32 || dtype == DType::kBFloat16,
           "[matmul] {} is {}, wants float32 or bfloat16", operand, Name(dtype));
}

const void* RowAddress(const ConstRows& x, int64_t row) {
  const auto size = static_cast<int64_t>(SizeOf(x.dtype));
  if (x.pointers != nullptr) {
    return static_cast<const char*>(x.pointers[row]) + x.offset * size;
  }
  return static_cast<const char*>(x.base) + (row * x.stride + x.offset) * size;
}

void TransposeRows(const MatMulKernels& kernels, const ConstRows& x, int64_t row, int rows,
                   int64_t k, uint32_t* to, int64_t stride) {
  alignas(64) uint32_t room[kMaxTransposeRows][kBlockWords];
  const int64_t block = kernels.words == WordKind::kBFloat16Pair ? 2 * kBlockWords : kBlockWords;
  for (int64_t begin = 0; begin < k; begin += block) {
    const int64_t count = std::min(block, k - begin);
    const int64_t words = WordCount(kernels.words, count);
    const uint32_t* from[kMaxTransposeRows];
    for (int i = 0; i < rows; ++i) {
      from[i] = RowWords(kernels, x, row + i, begin, count, room[i]);
    }
    if (rows == 1 && stride == 1) {
      std::copy_n(from[0], words, to);
    } else {
      kernels.transpose(from, rows, words, to, stride);
    }
    to += words * stride;
  }
}

void SpreadRows(const MatMulKernels& kernels, Side side, const ConstRows& x, int64_t r,
                int64_t columns, int64_t w_begin, int64_t w_end, uint32_t* panels,
                int64_t panel_stride) {
  const bool left = side == Side::kLeft;
  const int64_t width = left ? kernels.rows : kernels.panel_columns;
  // Panels of the right operand lie powers of two apart: more of them at a time than the
  // first-level cache has ways would drive each other out.
  const int64_t chunk = left ? std::max<int64_t>(columns, 1) : kPanelsAtOnce * width;
  for (int64_t c = 0; c < columns; c += chunk, panels += kPanelsAtOnce * panel_stride) {
    ConstRows part = x;
    part.offset += c;
    const int64_t count = std::min(chunk, columns - c);
    if (x.dtype == DType::kFloat32) {
      Spread(left ? kernels.spread_float_left : kernels.spread_float_right, kernels.words, part, r,
             count, w_begin, w_end, width, panels, panel_stride);
    } else {
      Spread(left ? kernels.spread_bfloat16_left : kernels.spread_bfloat16_right, kernels.words,
             part, r, count, w_begin, w_end, width, panels, panel_stride);
    }
  }
}

}  // namespace turbolstm
