#pragma once

#include <cstdint>
#include <span>

#include "base/dtype.h"

namespace turbolstm {

// fp32 rounded to bfloat16 or float16 (to nearest, ties to even; float16 becomes infinite beyond
// 65,504), and back; as bits. Both sides have as many elements. Error: another type.
void RoundToHalf(std::span<const float> from, DType dtype, std::span<uint16_t> to);
void WidenHalf(std::span<const uint16_t> from, DType dtype, std::span<float> to);

}  // namespace turbolstm
