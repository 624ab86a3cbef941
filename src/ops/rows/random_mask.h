#pragma once

#include <cstdint>

#include "base/philox.h"

namespace turbolstm {

// y[i] = scale where site.Uniform(first + i) < keep, else 0, for n elements; a block of Philox for
// every four of them.
void DrawRandomMask(const RandomSite& site, uint64_t first, int64_t n, double keep, float scale,
                    float* y);

}  // namespace turbolstm
