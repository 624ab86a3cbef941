#include "ops/matmul/split_product_cuda.h"

#include <algorithm>

namespace turbolstm::cuda {
namespace {

const void* At(const void* pieces, int64_t element) {
  return static_cast<const std::byte*>(pieces) + element * 2;
}

DeviceMatrix Pieces(const SplitMatrix& split, const void* pieces, int64_t element,
                    bool transposed) {
  return {At(pieces, element), split.stride, split.block_stride, DType::kBFloat16, transposed};
}

}  // namespace

SplitMatrix SplitRows(int64_t rows, int64_t columns, int64_t blocks) {
  SplitMatrix split{rows, columns, blocks, rows, SplitAligned(columns)};
  split.piece_stride = split.padded_columns;
  split.stride = kSplitPieces * split.padded_columns;
  split.block_stride = split.padded_rows * split.stride;
  return split;
}

SplitMatrix SplitWeight(int64_t rows, int64_t columns, int64_t blocks, bool transposed) {
  SplitMatrix split = SplitRows(rows, columns, blocks);
  split.smallest_first = true;
  if (!transposed) return split;
  split.padded_rows = SplitAligned(rows);
  split.stride = split.padded_columns;
  split.piece_stride = split.padded_rows * split.stride;
  split.block_stride = kSplitPieces * split.piece_stride;
  return split;
}

// Pieces of a lie largest first and those of b smallest first, so that one sum over i pieces of
// both is all terms of one size.
std::array<Gemm, kSplitPieces> SplitProducts(const Gemm& gemm, const SplitMatrix& a,
                                             const void* a_pieces, const SplitMatrix& b,
                                             const void* b_pieces) {
  std::array<Gemm, kSplitPieces> products;
  for (int64_t i = 0; i < kSplitPieces; ++i) {
    Gemm product = gemm;
    const int64_t pieces = kSplitPieces - i;
    product.k = pieces * a.padded_columns;
    product.a = Pieces(a, a_pieces, 0, false);
    product.b = Pieces(b, b_pieces, i * b.piece_stride, gemm.b.transposed);
    if (i > 0) {
      product.accumulate = true;
      product.bias = nullptr;
    }
    products[static_cast<size_t>(i)] = product;
  }
  return products;
}

std::vector<Gemm> SplitOuterProducts(const Gemm& gemm, const SplitMatrix& a, const void* a_pieces,
                                     int64_t a_row, const SplitMatrix& b, const void* b_pieces,
                                     int64_t b_row) {
  std::vector<Gemm> products;
  for (int64_t row = 0; row < gemm.k; row += kSplitRowsOfSum) {
    for (const SplitTerm& term : kSplitTerms) {
      Gemm product = gemm;
      product.k = std::min(kSplitRowsOfSum, gemm.k - row);
      product.a = Pieces(a, a_pieces, (a_row + row) * a.stride + term.a * a.piece_stride, true);
      product.b = Pieces(b, b_pieces, (b_row + row) * b.stride + term.b * b.piece_stride, false);
      if (!products.empty()) product.accumulate = true;
      products.push_back(product);
    }
  }
  return products;
}

}  // namespace turbolstm::cuda
