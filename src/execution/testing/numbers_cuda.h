#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/dtype.h"

// Numbers of all types on the host, and how near they are to be.
namespace turbolstm::cuda {

// Relative errors: of a sum, by the sum of magnitudes; and of rounding to a type.
inline constexpr double kSumTolerance = 2e-6;
inline double Rounding(DType dtype) {
  switch (dtype) {
    case DType::kBFloat16:
      return 0x1p-8;
    case DType::kFloat16:
      return 0x1p-10;
    default:
      return 0x1p-22;
  }
}

inline constexpr DType kFloats[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};

inline void Encode(double x, DType dtype, std::byte* at) {
  const auto put = [&](auto value) { std::memcpy(at, &value, sizeof(value)); };
  switch (dtype) {
    case DType::kBFloat16:
      return put(__float2bfloat16(static_cast<float>(x)));
    case DType::kFloat16:
      return put(__float2half(static_cast<float>(x)));
    case DType::kInt32:
      return put(static_cast<int32_t>(x));
    default:
      return put(static_cast<float>(x));
  }
}

inline double Decode(const std::byte* at, DType dtype) {
  const auto get = [&](auto value) {
    std::memcpy(&value, at, sizeof(value));
    return value;
  };
  switch (dtype) {
    case DType::kBFloat16:
      return __bfloat162float(get(__nv_bfloat16{}));
    case DType::kFloat16:
      return __half2float(get(__half{}));
    case DType::kInt32:
      return get(int32_t{});
    default:
      return get(float{});
  }
}

}  // namespace turbolstm::cuda
