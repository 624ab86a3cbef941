#include "optim/gradient_clip.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/error.h"

namespace turbolstm {
namespace {

constexpr double kNormEpsilon = 1e-6;

std::vector<std::span<float>> Chunks(std::span<const std::span<float>> arrays) {
  std::vector<std::span<float>> chunks;
  for (const std::span<float> array : arrays) {
    for (size_t first = 0; first < array.size(); first += kOptimizerChunk) {
      chunks.push_back(array.subspan(first, std::min(kOptimizerChunk, array.size() - first)));
    }
  }
  return chunks;
}

// Independent lanes: one running sum would wait for itself at every element.
double SumOfSquares(std::span<const float> values) {
  constexpr size_t kLanes = 16;
  std::array<double, kLanes> lanes = {};
  size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const double value = values[i + lane];
      lanes[lane] += value * value;
    }
  }
  for (; i < values.size(); ++i) lanes[0] += double{values[i]} * values[i];
  return std::accumulate(lanes.begin(), lanes.end(), 0.0);
}

double NormOfChunks(const std::vector<std::span<float>>& chunks, const ParallelFor& parallel_for) {
  std::vector<double> sums(chunks.size());
  parallel_for(static_cast<int64_t>(chunks.size()), [&](int64_t i) {
    sums[static_cast<size_t>(i)] = SumOfSquares(chunks[static_cast<size_t>(i)]);
  });
  return std::sqrt(std::accumulate(sums.begin(), sums.end(), 0.0));
}

}  // namespace

double GlobalNorm(std::span<const std::span<float>> gradients, const ParallelFor& parallel_for) {
  return NormOfChunks(Chunks(gradients), parallel_for);
}

double ClipGlobalNorm(std::span<const std::span<float>> gradients, double max_norm,
                      const ParallelFor& parallel_for) {
  TL_CHECK(max_norm > 0, "[clip] max_norm is {}, wants above 0", max_norm);
  const auto chunks = Chunks(gradients);
  const double norm = NormOfChunks(chunks, parallel_for);
  const double factor = max_norm / (norm + kNormEpsilon);
  if (!std::isfinite(norm) || factor >= 1) return norm;
  parallel_for(static_cast<int64_t>(chunks.size()), [&](int64_t i) {
    for (float& value : chunks[static_cast<size_t>(i)]) value *= static_cast<float>(factor);
  });
  return norm;
}

}  // namespace turbolstm
