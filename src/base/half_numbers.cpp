#include "base/half_numbers.h"

#include <algorithm>
#include <bit>

#include "base/bfloat16.h"
#include "base/error.h"

namespace turbolstm {
namespace {

void CheckHalf(DType dtype, size_t from, size_t to) {
  TL_CHECK(dtype == DType::kBFloat16 || dtype == DType::kFloat16,
           "[half numbers] got {}, wants bfloat16 or float16", Name(dtype));
  TL_CHECK(from == to, "[half numbers] got {} elements for {}", from, to);
}

// IEEE 754 binary16: 5 bits of exponent, 10 of fraction.
uint16_t Float16Bits(float value) {
  constexpr uint32_t kInfinity = 0x7f800000u;
  constexpr uint32_t kTooLarge = 0x477ff000u;    // 65,520 rounds to infinity
  constexpr uint32_t kNormal = 0x38800000u;      // 2^-14
  constexpr uint32_t kBiasChange = 0x38000000u;  // 127 - 15 exponents
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  uint32_t half = 0;
  if (magnitude > kInfinity) {
    half = 0x7e00u;
  } else if (magnitude >= kTooLarge) {
    half = 0x7c00u;
  } else if (magnitude < kNormal) {
    // One half has the spacing of subnormal numbers, 2^-24, so that the sum rounds to it.
    half = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) -
           std::bit_cast<uint32_t>(0.5f);
  } else {
    half = (magnitude - kBiasChange + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
  }
  return static_cast<uint16_t>(sign | half);
}

float FromFloat16(uint16_t bits) {
  const uint32_t sign = (bits & 0x8000u) << 16;
  const uint32_t magnitude = bits & 0x7fffu;
  if (magnitude < 0x400u) {
    const float value = static_cast<float>(magnitude) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | sign);
  }
  const uint32_t exponents = magnitude >= 0x7c00u ? 255 - 31 : 127 - 15;
  return std::bit_cast<float>(sign | ((magnitude << 13) + (exponents << 23)));
}

uint16_t BFloat16Bits(float value) {
  return BFloat16(value).bits;
}

float FromBFloat16(uint16_t bits) {
  BFloat16 value;
  value.bits = bits;
  return static_cast<float>(value);
}

}  // namespace

void RoundToHalf(std::span<const float> from, DType dtype, std::span<uint16_t> to) {
  CheckHalf(dtype, from.size(), to.size());
  const auto round = dtype == DType::kBFloat16 ? BFloat16Bits : Float16Bits;
  std::transform(from.begin(), from.end(), to.begin(), round);
}

void WidenHalf(std::span<const uint16_t> from, DType dtype, std::span<float> to) {
  CheckHalf(dtype, from.size(), to.size());
  const auto widen = dtype == DType::kBFloat16 ? FromBFloat16 : FromFloat16;
  std::transform(from.begin(), from.end(), to.begin(), widen);
}

}  // namespace turbolstm
