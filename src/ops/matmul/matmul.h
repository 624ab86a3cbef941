#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "ops/matmul/word_buffer.h"

namespace turbolstm {

struct MatMulKernels;

// Matrix products on one CPU thread, for the planner's workers to call on tiles of rows and
// columns.
//
// Every element of a result is summed over the inner dimension in one fixed order, which depends on
// the length of that dimension, the arithmetic and the CPU target alone: however rows and columns
// are split into calls, the bits are the same. Sums are kept in fp32. Scratch memory belongs to the
// thread and is kept, so a step that has run once allocates nothing. Sizes of 0 are legal.

// Rows to read: element c of row r is (pointers ? pointers[r] : base + r * stride)[offset + c].
struct ConstRows {
  const void* base = nullptr;
  int64_t stride = 0;                     // elements from row to row
  DType dtype = DType::kFloat32;          // or kBFloat16
  const void* const* pointers = nullptr;  // a gather, in place of base and stride
  int64_t offset = 0;                     // elements into each row, for a block of columns
};

// Rows to write, as above.
struct Rows {
  void* base = nullptr;
  int64_t stride = 0;
  DType dtype = DType::kFloat32;  // or kBFloat16
};

// A row-major fp32 matrix.
struct MatrixView {
  const float* data = nullptr;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t stride = 0;  // elements from row to row
};

// Half-open.
struct ColumnRange {
  int64_t begin = 0;
  int64_t end = 0;
};

// Part `index` of `count` that a packing is cut into, for several threads.
struct PackingPart {
  int64_t index = 0;
  int64_t count = 1;
};

// The right operand B [K, N] of y = x B in the layout that the kernels stream, or `heads` of them
// for a block-diagonal product. A later Pack of the same size writes into the same memory.
class PackedMatrix {
 public:
  int64_t k() const { return k_; }  // of one head
  int64_t n() const { return n_; }  // of one head
  int64_t heads() const { return heads_; }
  DType storage() const { return storage_; }
  // Calls on column ranges that begin and end at multiples of this (or at n) waste no work.
  int64_t tile_columns() const;
  int64_t bytes() const;
  // Makes room for so many bytes, which PackedBytes tells; leaves no matrix in it if that is more
  // than there was.
  void Reserve(int64_t bytes) { words_.Reserve(bytes / static_cast<int64_t>(sizeof(uint32_t))); }

 private:
  friend void Pack(const MatrixView&, bool, DType, PackedMatrix*, int64_t, const PackingPart&);
  friend void MatMul(const ConstRows&, int64_t, const PackedMatrix&, const ColumnRange&,
                     const float*, bool, const Rows&);

  WordBuffer words_;  // [heads, panels, words of k, columns of a panel]
  const MatMulKernels* kernels_ = nullptr;
  int64_t heads_ = 0;
  int64_t k_ = 0;
  int64_t n_ = 0;
  DType storage_ = DType::kFloat32;
};

// Packs a weight for y = x W^T (transposed: `weight` is [heads * N, K]) or y = x W (`weight` is
// [heads * K, N]), rounding to `storage` (kFloat32 or kBFloat16). With bf16 storage the products
// are of bf16 numbers, in hardware where the CPU has AVX512-BF16, else widened to fp32.
// All parts must be packed, at the same time or in any order; more than one need room reserved.
void Pack(const MatrixView& weight, bool transposed, DType storage, PackedMatrix* packed,
          int64_t heads = 1, const PackingPart& part = {});

// Bytes that Pack takes for `heads` matrices B [K, N] on the current CPU target.
int64_t PackedBytes(int64_t k, int64_t n, DType storage, int64_t heads = 1);

// y [M, C] = x [M, heads * K] B[:, columns] (+ y if accumulate) (+ bias [C] unless null), where C
// is the size of `columns`, a range of the heads * N columns of the product; y and bias begin at
// its first column. x is rounded to bf16 when B is stored so. y must not overlap x or bias.
void MatMul(const ConstRows& x, int64_t m, const PackedMatrix& b, const ColumnRange& columns,
            const float* bias, bool accumulate, const Rows& y);

// All columns.
void MatMul(const ConstRows& x, int64_t m, const PackedMatrix& b, const float* bias,
            bool accumulate, const Rows& y);

// The gradient of a weight: dw [M, N] (+)= sum over r in [0, R) of a[r, :M]^T b[r, :N]. Tiles of dw
// come from offsets into the rows of a and b. `arithmetic` kBFloat16 rounds both operands to bf16
// first; only then may the products run in bf16 hardware. dw must not overlap a or b.
void MatMulTransposed(const ConstRows& a, int64_t m, const ConstRows& b, int64_t n, int64_t r,
                      DType arithmetic, bool accumulate, float* dw, int64_t dw_stride);

// The gradient of a bias: sums [N] (+)= sum over r in [0, R) of a[r, :N].
void SumOverRows(const ConstRows& a, int64_t n, int64_t r, bool accumulate, float* sums);

}  // namespace turbolstm
