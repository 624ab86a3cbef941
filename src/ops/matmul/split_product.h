#pragma once

#include <array>
#include <cstdint>

#include "base/bfloat16.h"

// Products of fp32 numbers out of products of bf16 numbers, for devices that multiply these many
// times faster (Henry, Tang and Heinecke, arXiv 1904.06376). docs/precision.md derives the error.
namespace turbolstm {

// A number is the sum of three bf16 pieces, the largest first.
inline constexpr int kSplitPieces = 3;
// The largest of bf16, which numbers beyond it begin with: they would round to infinity.
inline constexpr float kLargestSplitPiece = 0x1.FEp127f;

// Each piece is what the ones before leave, rounded to nearest. For a finite x of at least 2^-110
// the sum is x; below, it misses at most 2^-134. Pieces of infinity and NaN add up to them.
std::array<BFloat16, kSplitPieces> SplitFloat(float x);

// The product of two such sums but for three terms that are together at most 2^-24 |a b|, the
// smallest first: pieces of a and of b.
struct SplitTerm {
  int a = 0;
  int b = 0;
};
inline constexpr std::array<SplitTerm, 6> kSplitTerms{
    {{0, 2}, {1, 1}, {2, 0}, {0, 1}, {1, 0}, {0, 0}}};

// Sums over more rows are added up in parts of so many: within a part a device may cut where fp32
// rounds, parts are added with rounding.
inline constexpr int64_t kSplitRowsOfSum = 8192;

// Pieces are made of so many of `rows` rows at once: of all there are, of half where these are
// many, and never of more than a part of a sum has. So they take little memory beside the rows.
constexpr int64_t SplitRowsAtOnce(int64_t rows) {
  constexpr int64_t kFewest = 2048;
  constexpr int64_t kAlignment = 256;
  const int64_t half = (rows / 2 + kAlignment - 1) / kAlignment * kAlignment;
  return rows <= kFewest          ? rows
         : half < kFewest         ? kFewest
         : half < kSplitRowsOfSum ? half
                                  : kSplitRowsOfSum;
}

// Rows of pieces begin at multiples of as many elements, and sums run over as many.
inline constexpr int64_t kSplitAlignment = 8;
constexpr int64_t SplitAligned(int64_t elements) {
  return (elements + kSplitAlignment - 1) / kSplitAlignment * kSplitAlignment;
}

// [m, k] times [k, n], `batches` times; `outer` when both operands change from call to call, else b
// is a matrix of weights, whose pieces are made once for many calls.
struct ProductSize {
  int64_t m = 0, n = 0, k = 0;
  int64_t batches = 1;
  bool outer = false;
};

enum class SplitRule : uint8_t {
  kWherePays,  // where it is reckoned to be faster than the fp32 product
  kAlways,     // wherever there is something to multiply
};

// True at a size only if it is at every larger one.
bool IsSplit(const ProductSize& size, SplitRule rule);

}  // namespace turbolstm
