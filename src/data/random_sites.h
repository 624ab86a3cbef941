#pragma once

#include <cstdint>

namespace turbolstm {

// The sites of this folder's draws (see RandomSite), far from those of a network's nodes, which
// count from 0.
inline constexpr uint32_t kHeldOutSite = 0xDA7A0001;
inline constexpr uint32_t kSampleOrderSite = 0xDA7A0002;
inline constexpr uint32_t kBatchOrderSite = 0xDA7A0003;

}  // namespace turbolstm
