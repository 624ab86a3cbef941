#include "data/shuffle.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "data/random_sites.h"

namespace turbolstm {

std::vector<int64_t> ShuffledIndices(int64_t n, const RandomSite& site) {
  std::vector<std::pair<uint32_t, int64_t>> keyed(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    keyed[static_cast<size_t>(i)] = {site.Bits(static_cast<uint64_t>(i)), i};
  }
  std::sort(keyed.begin(), keyed.end());
  std::vector<int64_t> order(keyed.size());
  std::transform(keyed.begin(), keyed.end(), order.begin(), [](const auto& k) { return k.second; });
  return order;
}

HeldOutSplit SplitHeldOut(int64_t n, double share, uint64_t seed) {
  TL_CHECK(share >= 0 && share <= 1, "[split] held-out share is {}, wants 0 to 1", share);
  const auto order = ShuffledIndices(n, {.seed = seed, .step = 0, .site = kHeldOutSite});
  const auto middle = order.begin() + std::llround(static_cast<double>(n) * share);
  HeldOutSplit split{.train = {middle, order.end()}, .held_out = {order.begin(), middle}};
  std::sort(split.train.begin(), split.train.end());
  std::sort(split.held_out.begin(), split.held_out.end());
  return split;
}

}  // namespace turbolstm
