#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <vector>

#include "ops/matmul/gemm_cuda.h"
#include "ops/matmul/split_product.h"

namespace turbolstm::cuda {

// Where the pieces of fp32 matrices lie: `blocks` matrices of [rows, columns] bf16 a piece, rows
// and, where sums run over them, columns filled up with zeros. Strides are in elements.
struct SplitMatrix {
  int64_t rows = 0, columns = 0, blocks = 1;
  int64_t padded_rows = 0, padded_columns = 0;
  int64_t stride = 0;        // from row to row
  int64_t piece_stride = 0;  // from piece to piece
  int64_t block_stride = 0;  // from matrix to matrix
  bool smallest_first = false;

  int64_t elements() const { return blocks * block_stride; }
  int64_t bytes() const { return elements() * 2; }
};

// [blocks, rows, 3, columns]: the left operand of products over columns, and either one of products
// over rows.
SplitMatrix SplitRows(int64_t rows, int64_t columns, int64_t blocks);
// The right operand of products over columns: the same, and [blocks, 3, rows, columns] where the
// sum runs over its rows (`transposed` of a weight as the graph has it).
SplitMatrix SplitWeight(int64_t rows, int64_t columns, int64_t blocks, bool transposed);

// Writes the pieces. x: fp32, element (block, row, column) at block * x_block_stride + row *
// x_stride + column. y: bytes() of them, aligned to 16.
void Split(const SplitMatrix& split, const float* x, int64_t x_stride, int64_t x_block_stride,
           void* y, cudaStream_t stream);

// The products to be run one after the other in place of `gemm`, whose operands are fp32, smallest
// terms first. Only the first adds a bias.
// a: pieces of [m, k] as SplitRows; b: of the weight [n, k], or [k, n] transposed, as SplitWeight.
std::array<Gemm, kSplitPieces> SplitProducts(const Gemm& gemm, const SplitMatrix& a,
                                             const void* a_pieces, const SplitMatrix& b,
                                             const void* b_pieces);
// A sum over rows, c = a' b: pieces of [k, m] and [k, n] as SplitRows, of which the products read
// rows from a_row and b_row on.
std::vector<Gemm> SplitOuterProducts(const Gemm& gemm, const SplitMatrix& a, const void* a_pieces,
                                     int64_t a_row, const SplitMatrix& b, const void* b_pieces,
                                     int64_t b_row);

}  // namespace turbolstm::cuda
