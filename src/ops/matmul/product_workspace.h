#pragma once

#include <algorithm>
#include <cstdint>

#include "base/dtype.h"

namespace turbolstm {

// A product on a device may work in as many bytes of memory: a part of what its three matrices take
// (`product_bytes`), within bounds. The upper one is what cuBLASLt asks for on Hopper; small
// products of 16 bits split their sums well within the lower one, those of wider operands do not.
constexpr int64_t kProductBytesPerWorkspaceByte = 8;
constexpr int64_t kSmallWorkspaceBytes = int64_t{8} << 20;
constexpr int64_t kLargeWorkspaceBytes = int64_t{32} << 20;

inline int64_t MostWorkspaceBytes(int64_t product_bytes, DType operand) {
  if (SizeOf(operand) > 2) return kLargeWorkspaceBytes;
  return std::clamp(product_bytes / kProductBytesPerWorkspaceByte, kSmallWorkspaceBytes,
                    kLargeWorkspaceBytes);
}

}  // namespace turbolstm
