#pragma once

#include <cstdint>

namespace turbolstm {

struct BFloat16;

// What matmul.cpp needs of an instruction set. Operands are streams of 32-bit words along the inner
// dimension: a word is one fp32 number, or a pair of bf16 numbers that follow each other in it.

// Words of the inner dimension whose products are summed on their own, from zero, before the sum is
// added to the result. It bounds rounding errors, keeps a block of both operands in the first-level
// cache, and is part of the fixed order of summation.
inline constexpr int64_t kBlockWords = 256;

// c[i, j] = (add ? c[i, j] : 0) + (bias ? bias[j] : 0) + sum over w of a[w][i] * b[j / P][w][j % P]
// for a fixed number of rows i, and `panels` panels of P columns that lie panel_stride words apart.
using MicroKernel = void (*)(const uint32_t* a, const uint32_t* b, int64_t panel_stride,
                             int64_t words, float* c, int64_t c_stride, const float* bias,
                             bool add);

// panels[p][w][c] = column p * width + c of word row w for one w; panels lie panel_stride words
// apart, the last one is filled with zeros. Stores whole vectors for each w, in the order of w;
// what lies behind the panel's columns is garbage that the next w may overwrite. A word row is one
// row, or two for bf16 pairs; a null second row counts as zeros.
template <typename T>
using SpreadRow = void (*)(const T* row, const T* next, int64_t columns, uint32_t* panels,
                           int64_t panel_stride);

enum class WordKind {
  kFloat32,          // fp32
  kRoundedBFloat16,  // fp32 that holds a bf16 number: bf16 arithmetic without hardware
  kBFloat16Pair,
};
inline constexpr int kWordKinds = 3;

inline constexpr int kMaxRows = 14;   // of any micro-kernel
inline constexpr int kMaxPanels = 2;  // of any micro-kernel
inline constexpr int kMaxPanelColumns = 32;
inline constexpr int kMaxOverrun = 16;  // words that may be stored behind an operand

struct MatMulKernels {
  WordKind words;
  int rows;            // most rows of a micro-kernel
  int panel_columns;   // P
  int transpose_rows;  // most rows of a call of transpose, and the words it stores at a time
  // [rows - 1][panels - 1]; two panels are null where the registers do not suffice.
  MicroKernel micro[kMaxRows][kMaxPanels];
  // to[w * stride + i] = rows[i][w]. Stores transpose_rows words for each w, in the order of w;
  // what lies behind the given rows is garbage that the next w may overwrite.
  void (*transpose)(const uint32_t* const* rows, int row_count, int64_t words, uint32_t* to,
                    int64_t stride);
  // Converts `count` numbers to words of the kind; an odd last one is paired with zero.
  void (*convert_float)(const float* from, int64_t count, uint32_t* to);
  void (*convert_bfloat16)(const BFloat16* from, int64_t count, uint32_t* to);
  void (*round)(const float* from, int64_t count, BFloat16* to);
  void (*widen)(const BFloat16* from, int64_t count, float* to);
  // sums[i] += from[i]
  void (*add_float)(const float* from, int64_t count, float* sums);
  void (*add_bfloat16)(const BFloat16* from, int64_t count, float* sums);
  // Word rows spread over panels of panel_columns (right operand) or of `rows` (left operand).
  SpreadRow<float> spread_float_right;
  SpreadRow<BFloat16> spread_bfloat16_right;
  SpreadRow<float> spread_float_left;
  SpreadRow<BFloat16> spread_bfloat16_left;
};

// The kernels of the current CPU target. The reference stays valid.
const MatMulKernels& ChooseMatMulKernels(WordKind kind);
// Which words products of bf16 numbers take on the current CPU target.
WordKind BFloat16Words();

// Puts micro-kernels for pairs in AVX512-BF16 into `kernels`; false when the compiler or the
// running CPU lacks it.
bool AddBFloat16MicroKernels(MatMulKernels* kernels);

}  // namespace turbolstm
