// fp32 micro-kernels and data movement for every Highway target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/matmul/kernels_highway.cpp"
#include <hwy/foreach_target.h>
// Must come after foreach_target.h.
#include <hwy/highway.h>

#include <bit>
#include <cstdint>
#include <cstring>

#include "base/bfloat16.h"
#include "ops/cpu_target.h"
#include "ops/matmul/kernels.h"

HWY_BEFORE_NAMESPACE();
namespace turbolstm {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR

// The compiler's own 128-bit vectors, which every CPU has: this Highway has no SSE2.
struct Float32Simd {
  using Vec = float __attribute__((vector_size(16)));
  static constexpr int kLanes = 4;
  static constexpr int kRegisters = 16;
  static constexpr int kRows = 6;

  static HWY_INLINE Vec Zero() { return Vec{}; }
  static HWY_INLINE Vec Load(const void* from) {
    Vec value;
    std::memcpy(&value, from, sizeof(value));
    return value;
  }
  static HWY_INLINE void Store(Vec value, float* to) { std::memcpy(to, &value, sizeof(value)); }
  static HWY_INLINE Vec Add(Vec x, Vec y) { return x + y; }
  static HWY_INLINE Vec LoadWords(const uint32_t* from) { return Load(from); }
  static HWY_INLINE Vec BroadcastWord(const uint32_t* from) {
    const float value = std::bit_cast<float>(*from);
    return Vec{value, value, value, value};
  }
  static HWY_INLINE Vec MulAdd(Vec x, Vec y, Vec sum) { return x * y + sum; }
};

#else

struct Float32Simd {
  using Tag = hn::ScalableTag<float>;
  using Vec = hn::Vec<Tag>;
  static constexpr int kLanes = static_cast<int>(hn::MaxLanes(Tag()));
  static constexpr int kRegisters = HWY_TARGET == HWY_AVX2 ? 16 : 32;
  // Rows of the largest kernel: two sums each besides two vectors of B and a broadcast, and no more
  // than transpose stores at a time.
  static constexpr int kMostRows = kRegisters == 16 ? 6 : kMaxRows;
  static constexpr int kRows = kLanes > kMostRows ? kMostRows : kLanes;

  static HWY_INLINE Vec Zero() { return hn::Zero(Tag()); }
  static HWY_INLINE Vec Load(const float* from) { return hn::LoadU(Tag(), from); }
  static HWY_INLINE void Store(Vec value, float* to) { hn::StoreU(value, Tag(), to); }
  static HWY_INLINE Vec Add(Vec x, Vec y) { return hn::Add(x, y); }
  static HWY_INLINE Vec LoadWords(const uint32_t* from) {
    return hn::LoadU(Tag(), reinterpret_cast<const float*>(from));
  }
  static HWY_INLINE Vec BroadcastWord(const uint32_t* from) {
    return hn::Set(Tag(), std::bit_cast<float>(*from));
  }
  static HWY_INLINE Vec MulAdd(Vec x, Vec y, Vec sum) { return hn::MulAdd(x, y, sum); }
};

#endif  // HWY_TARGET == HWY_SCALAR

constexpr int kRightWidth = 2 * Float32Simd::kLanes;

#include "ops/matmul/micro_kernel-inl.h"

// Words of each kind from numbers; plain code that the compiler turns into vectors.

HWY_INLINE uint32_t Bits(float value) {
  return std::bit_cast<uint32_t>(value);
}
HWY_INLINE uint32_t Bits(BFloat16 value) {
  return uint32_t{value.bits} << 16;
}
// fp32 bits of the number rounded to bf16: to nearest, ties to even; NaN stays NaN.
HWY_INLINE uint32_t RoundedBits(float value) {
  const uint32_t wide = Bits(value);
  const bool nan = (wide & 0x7fffffffu) > 0x7f800000u;
  return (nan ? wide | 0x400000u : wide + 0x7fffu + ((wide >> 16) & 1u)) & 0xffff0000u;
}
HWY_INLINE uint32_t RoundedBits(BFloat16 value) {
  return Bits(value);
}

template <WordKind kKind, typename T>
HWY_INLINE uint32_t MakeWord(T first, T second) {
  if constexpr (kKind == WordKind::kFloat32) return Bits(first);
  if constexpr (kKind == WordKind::kRoundedBFloat16) return RoundedBits(first);
  return RoundedBits(second) | RoundedBits(first) >> 16;
}

template <WordKind kKind, typename T>
void Convert(const T* HWY_RESTRICT from, int64_t count, uint32_t* HWY_RESTRICT to) {
  if constexpr (kKind == WordKind::kBFloat16Pair) {
    for (int64_t w = 0; w < count / 2; ++w) to[w] = MakeWord<kKind>(from[2 * w], from[2 * w + 1]);
    if (count % 2 != 0) to[count / 2] = MakeWord<kKind>(from[count - 1], T());
  } else {
    for (int64_t w = 0; w < count; ++w) to[w] = MakeWord<kKind>(from[w], from[w]);
  }
}

void Round(const float* HWY_RESTRICT from, int64_t count, BFloat16* HWY_RESTRICT to) {
  for (int64_t i = 0; i < count; ++i)
    to[i].bits = static_cast<uint16_t>(RoundedBits(from[i]) >> 16);
}

void Widen(const BFloat16* HWY_RESTRICT from, int64_t count, float* HWY_RESTRICT to) {
  for (int64_t i = 0; i < count; ++i) to[i] = std::bit_cast<float>(Bits(from[i]));
}

template <typename T>
void AddTo(const T* HWY_RESTRICT from, int64_t count, float* HWY_RESTRICT sums) {
  for (int64_t i = 0; i < count; ++i) sums[i] += std::bit_cast<float>(Bits(from[i]));
}

// A panel's words of one w: whole vectors, so that odd widths cost no more.
template <int kWidth>
constexpr int kStored =
    (kWidth + Float32Simd::kLanes - 1) / Float32Simd::kLanes* Float32Simd::kLanes;

template <WordKind kKind, int kCount, typename T>
HWY_INLINE void SpreadPanel(const T* HWY_RESTRICT row, const T* HWY_RESTRICT next,
                            uint32_t* HWY_RESTRICT to) {
  for (int c = 0; c < kCount; ++c) to[c] = MakeWord<kKind>(row[c], next[c]);
}

template <WordKind kKind, int kWidth, typename T>
void Spread(const T* row, const T* next, int64_t columns, uint32_t* panels, int64_t panel_stride) {
  constexpr int kCount = kStored<kWidth>;
  static constexpr T kZeros[kCount] = {};
  const bool single = next == nullptr;
  int64_t c = 0;
  for (; c + kCount <= columns; c += kWidth, panels += panel_stride) {
    SpreadPanel<kKind, kCount>(row + c, single ? kZeros : next + c, panels);
  }
  for (; c < columns; c += kWidth, panels += panel_stride) {
    T last[kCount] = {};
    T last_next[kCount] = {};
    for (int64_t i = 0; i < columns - c && i < kWidth; ++i) {
      last[i] = row[c + i];
      if (!single) last_next[i] = next[c + i];
    }
    SpreadPanel<kKind, kCount>(last, last_next, panels);
  }
}

#if HWY_TARGET == HWY_SCALAR

constexpr int kTransposeRows = Float32Simd::kRows;

void Transpose(const uint32_t* const* rows, int row_count, int64_t words, uint32_t* to,
               int64_t stride) {
  for (int64_t w = 0; w < words; ++w) {
    for (int i = 0; i < row_count; ++i) to[w * stride + i] = rows[i][w];
  }
}

#else

constexpr int kTransposeRows = Float32Simd::kLanes;

// Four words from each of rows[0], rows[4], rows[8]…, a 128-bit block for each.
template <class D>
HWY_INLINE hn::Vec<D> LoadBlocks(D d, const uint32_t* const* rows, int64_t at) {
  constexpr int kCount = static_cast<int>(hn::MaxLanes(D()));
  if constexpr (kCount == 4) {
    return hn::LoadU(d, rows[0] + at);
  } else {
    const hn::Half<D> half;
    return hn::Combine(d, LoadBlocks(half, rows + kCount / 2, at), LoadBlocks(half, rows, at));
  }
}

// Block b of the vectors loaded below holds the rows 4b, 4b + 1… at the same four words, so that a
// 4 x 4 transpose within the blocks leaves a vector for each word with the rows in order.
void Transpose(const uint32_t* const* rows, int row_count, int64_t words, uint32_t* to,
               int64_t stride) {
  const hn::ScalableTag<uint32_t> d;
  const hn::Repartition<uint64_t, decltype(d)> wide;
  const uint32_t* all[kTransposeRows];
  for (int i = 0; i < kTransposeRows; ++i) all[i] = rows[i < row_count ? i : 0];
  int64_t w = 0;
  for (; w + 4 <= words; w += 4) {
    const auto v0 = LoadBlocks(d, all, w);
    const auto v1 = LoadBlocks(d, all + 1, w);
    const auto v2 = LoadBlocks(d, all + 2, w);
    const auto v3 = LoadBlocks(d, all + 3, w);
    const auto low01 = hn::BitCast(wide, hn::InterleaveLower(d, v0, v1));
    const auto low23 = hn::BitCast(wide, hn::InterleaveLower(d, v2, v3));
    const auto high01 = hn::BitCast(wide, hn::InterleaveUpper(d, v0, v1));
    const auto high23 = hn::BitCast(wide, hn::InterleaveUpper(d, v2, v3));
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(wide, low01, low23)), d, to + w * stride);
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(wide, low01, low23)), d, to + (w + 1) * stride);
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(wide, high01, high23)), d, to + (w + 2) * stride);
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(wide, high01, high23)), d, to + (w + 3) * stride);
  }
  for (; w < words; ++w) {
    for (int i = 0; i < row_count; ++i) to[w * stride + i] = rows[i][w];
  }
}

#endif  // HWY_TARGET == HWY_SCALAR

template <WordKind kKind>
MatMulKernels MakeKernels() {
  MatMulKernels kernels = {};
  kernels.words = kKind;
  kernels.rows = Float32Simd::kRows;
  kernels.panel_columns = kRightWidth;
  kernels.transpose_rows = kTransposeRows;
  AddMicroKernels<Float32Simd, Float32Simd::kRows>(&kernels);
  kernels.transpose = &Transpose;
  kernels.convert_float = &Convert<kKind, float>;
  kernels.convert_bfloat16 = &Convert<kKind, BFloat16>;
  kernels.round = &Round;
  kernels.widen = &Widen;
  kernels.add_float = &AddTo<float>;
  kernels.add_bfloat16 = &AddTo<BFloat16>;
  kernels.spread_float_right = &Spread<kKind, kRightWidth, float>;
  kernels.spread_bfloat16_right = &Spread<kKind, kRightWidth, BFloat16>;
  kernels.spread_float_left = &Spread<kKind, Float32Simd::kRows, float>;
  kernels.spread_bfloat16_left = &Spread<kKind, Float32Simd::kRows, BFloat16>;
  return kernels;
}

const MatMulKernels* Kernels(WordKind kind) {
  static const MatMulKernels float32 = MakeKernels<WordKind::kFloat32>();
  static const MatMulKernels rounded = MakeKernels<WordKind::kRoundedBFloat16>();
  switch (kind) {
    case WordKind::kFloat32:
      return &float32;
    case WordKind::kRoundedBFloat16:
      return &rounded;
    case WordKind::kBFloat16Pair:
      break;
  }
#if HWY_ARCH_X86 && HWY_TARGET == HWY_AVX3
  static const MatMulKernels pair = [] {
    MatMulKernels kernels = MakeKernels<WordKind::kBFloat16Pair>();
    if (!AddBFloat16MicroKernels(&kernels)) kernels.rows = 0;
    return kernels;
  }();
  if (pair.rows > 0) return &pair;
#endif
  return nullptr;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace turbolstm
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace turbolstm {

HWY_EXPORT(Kernels);

const MatMulKernels& ChooseMatMulKernels(WordKind kind) {
  ApplyCpuTargetFromEnvironment();
  return *HWY_DYNAMIC_DISPATCH(Kernels)(kind);
}

WordKind BFloat16Words() {
  ApplyCpuTargetFromEnvironment();
  const bool native = HWY_DYNAMIC_DISPATCH(Kernels)(WordKind::kBFloat16Pair) != nullptr;
  return native ? WordKind::kBFloat16Pair : WordKind::kRoundedBFloat16;
}

}  // namespace turbolstm
#endif  // HWY_ONCE
