#include "ops/matmul/split_product.h"

#include <algorithm>

namespace turbolstm {
namespace {

// Reckoned from the data sheet of an H200 at four fifths of its peaks: fp32 53 TFLOP/s, bf16 790
// TFLOP/s, 4.8 TB/s. An element that is split is read once more and its pieces, six bytes, are
// written; either way three bf16 pieces are read twice on average where one fp32 number was.
constexpr double kSavedPerMultiply = 2.0 / 53e12 - 12.0 / 790e12;  // seconds
constexpr double kSplitElement = (4 + 6 + 8) / 3.8e12;
constexpr double kWeightElement = 8 / 3.8e12;
constexpr double kLaunch = 2e-6;
constexpr int kMoreLaunches = 3;       // two products more, and the split
constexpr int kMoreLaunchesOuter = 7;  // five products more, and two splits

}  // namespace

std::array<BFloat16, kSplitPieces> SplitFloat(float x) {
  std::array<BFloat16, kSplitPieces> pieces;
  for (int i = 0; i + 1 < kSplitPieces; ++i) {
    // Of NaN, the last piece alone.
    const float inside = x != x ? 0.0f : std::clamp(x, -kLargestSplitPiece, kLargestSplitPiece);
    pieces[static_cast<size_t>(i)] = BFloat16(inside);
    x -= static_cast<float>(pieces[static_cast<size_t>(i)]);
  }
  pieces.back() = BFloat16(x);
  return pieces;
}

bool IsSplit(const ProductSize& size, SplitRule rule) {
  if (size.m <= 0 || size.n <= 0 || size.k <= 0 || size.batches <= 0) return false;
  if (rule == SplitRule::kAlways) return true;
  const auto m = static_cast<double>(size.m), n = static_cast<double>(size.n);
  const auto k = static_cast<double>(size.k), batches = static_cast<double>(size.batches);
  const double b = size.outer ? kSplitElement : kWeightElement;
  const double saved = kSavedPerMultiply * m * n * k - kSplitElement * m * k - b * n * k;
  return batches * saved > kLaunch * (size.outer ? kMoreLaunchesOuter : kMoreLaunches);
}

}  // namespace turbolstm
