#pragma once

#include <bit>
#include <cstdint>

namespace turbolstm {

// A 16-bit float with fp32's exponent; arithmetic happens in fp32.
struct BFloat16 {
  uint16_t bits = 0;

  BFloat16() = default;
  // Rounds to nearest, ties to even; NaN stays NaN.
  explicit BFloat16(float value) {
    const auto wide = std::bit_cast<uint32_t>(value);
    const bool nan = (wide & 0x7fffffffu) > 0x7f800000u;
    bits = nan ? static_cast<uint16_t>((wide >> 16) | 0x40u)
               : static_cast<uint16_t>((wide + 0x7fffu + ((wide >> 16) & 1u)) >> 16);
  }
  explicit operator float() const { return std::bit_cast<float>(uint32_t{bits} << 16); }
};

}  // namespace turbolstm
