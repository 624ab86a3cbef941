#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/philox.h"

namespace turbolstm {

// The numbers 0 to n-1 in an order that depends on the random site alone.
std::vector<int64_t> ShuffledIndices(int64_t n, const RandomSite& site);

// Which of n samples train and which are held out: round(n * share) of them, chosen by the seed.
// Both lists ascend.
struct HeldOutSplit {
  std::vector<int64_t> train;
  std::vector<int64_t> held_out;
};
HeldOutSplit SplitHeldOut(int64_t n, double share, uint64_t seed);

}  // namespace turbolstm
