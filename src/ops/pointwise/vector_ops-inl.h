// What each PointwiseOp means on a vector, and how vectors move between memory and registers. The
// interpreter and the emitted kernels both use these, which is why their bits agree.

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/bfloat16.h"
#include "ops/pointwise/kernel.h"

// clang-format off: Highway's toggled include guard
#if defined(TL_OPS_POINTWISE_VECTOR_OPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TL_OPS_POINTWISE_VECTOR_OPS_INL_H_
#undef TL_OPS_POINTWISE_VECTOR_OPS_INL_H_
#else
#define TL_OPS_POINTWISE_VECTOR_OPS_INL_H_
#endif
// clang-format on

#include <hwy/highway.h>

#include "ops/pointwise/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace turbolstm {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using VectorTag = hn::ScalableTag<float>;
using Vector = hn::Vec<VectorTag>;

template <PointwiseOp op>
HWY_INLINE Vector Apply([[maybe_unused]] VectorTag d, Vector a) {
  using enum PointwiseOp;
  if constexpr (op == kNeg) return hn::Neg(a);
  if constexpr (op == kOneMinus) return hn::Sub(hn::Set(d, 1.0f), a);
  if constexpr (op == kSigmoid) return Sigmoid(d, a);
  if constexpr (op == kTanh) return Tanh(d, a);
  if constexpr (op == kRelu) return AtLeast(d, 0.0f, a);
  if constexpr (op == kSoftplus) return Softplus(d, a);
  if constexpr (op == kLogSigmoid) return LogSigmoid(d, a);
  if constexpr (op == kExp) return Exp(d, a);
  if constexpr (op == kLog) return Log(d, a);
  if constexpr (op == kSqrt) return hn::Sqrt(a);
  if constexpr (op == kRsqrt) return hn::Div(hn::Set(d, 1.0f), hn::Sqrt(a));
  if constexpr (op == kReciprocal) return hn::Div(hn::Set(d, 1.0f), a);
  if constexpr (op == kAbs) return hn::Abs(a);
  if constexpr (op == kSin) return SineOrCosine<false>(d, a);
  if constexpr (op == kCos) return SineOrCosine<true>(d, a);
  if constexpr (op == kCopy) return a;
}

template <PointwiseOp op>
HWY_INLINE Vector Apply([[maybe_unused]] VectorTag d, Vector a, Vector b) {
  using enum PointwiseOp;
  if constexpr (op == kAdd) return hn::Add(a, b);
  if constexpr (op == kSub) return hn::Sub(a, b);
  if constexpr (op == kMul) return hn::Mul(a, b);
  if constexpr (op == kDiv) return hn::Div(a, b);
  if constexpr (op == kMax) return hn::IfThenElse(hn::Or(hn::Gt(a, b), hn::IsNaN(a)), a, b);
  if constexpr (op == kMin) return hn::IfThenElse(hn::Or(hn::Lt(a, b), hn::IsNaN(a)), a, b);
  if constexpr (op == kGreater) return hn::IfThenElseZero(hn::Gt(a, b), hn::Set(d, 1.0f));
}

template <PointwiseOp op>
HWY_INLINE Vector Apply(VectorTag d, Vector a, Vector b, Vector c) {
  if constexpr (op == PointwiseOp::kSelect) return hn::IfThenElse(hn::Eq(a, hn::Zero(d)), c, b);
}

// bf16 in the low halves to float, exact.
HWY_INLINE Vector WidenBFloat16(VectorTag d, const BFloat16* from) {
  const hn::Rebind<uint16_t, VectorTag> d16;
  const hn::Rebind<uint32_t, VectorTag> d32;
  const auto bits = hn::LoadU(d16, reinterpret_cast<const uint16_t*>(from));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(d32, bits)));
}

// Rounds to nearest, ties to even; NaN stays NaN (as BFloat16(float) does).
HWY_INLINE void NarrowToBFloat16(Vector v, BFloat16* to) {
  const hn::Rebind<uint16_t, VectorTag> d16;
  const hn::Rebind<uint32_t, VectorTag> d32;
  const hn::Rebind<int32_t, VectorTag> di32;
  const auto bits = hn::BitCast(d32, v);
  const auto high = hn::ShiftRight<16>(bits);
  const auto odd = hn::And(high, hn::Set(d32, 1));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(d32, 0x7fff))));
  const auto nan = hn::RebindMask(d32, hn::IsNaN(v));
  const auto result = hn::IfThenElse(nan, hn::Or(high, hn::Set(d32, 0x40)), rounded);
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di32, result)), d16, reinterpret_cast<uint16_t*>(to));
}

// `count` elements (less than a vector) through a full one in a buffer, so that nothing beyond them
// is touched and the arithmetic is that of a full vector.
template <typename T, typename Body>
HWY_INLINE Vector LoadThroughBuffer(const T* from, size_t count, Body load) {
  HWY_ALIGN T buffer[hn::MaxLanes(VectorTag())] = {};
  std::memcpy(buffer, from, count * sizeof(T));
  return load(static_cast<const T*>(buffer));
}

// One row of an element input or of an output.
class RowPointer {
 public:
  RowPointer() = default;
  RowPointer(const PointwiseSlot& slot, int64_t r)
      : wide_(slot.dtype == DType::kFloat32),
        data_(static_cast<char*>(slot.data) + r * slot.row_stride * (wide_ ? 4 : 2)) {}

  // Elements j to j + count, where count is at most a vector; the other lanes are 0.
  HWY_INLINE Vector Load(VectorTag d, int64_t j, size_t count) const {
    if (HWY_LIKELY(count == hn::Lanes(d))) {
      return wide_ ? hn::LoadU(d, Wide() + j) : WidenBFloat16(d, Narrow() + j);
    }
    return LoadPart(d, j, count);
  }

  HWY_INLINE void Store(VectorTag d, Vector v, int64_t j, size_t count) const {
    if (HWY_LIKELY(count == hn::Lanes(d))) {
      if (wide_) {
        hn::StoreU(v, d, Wide() + j);
      } else {
        NarrowToBFloat16(v, Narrow() + j);
      }
      return;
    }
    StorePart(d, v, j, count);
  }

 private:
  float* Wide() const { return reinterpret_cast<float*>(data_); }
  BFloat16* Narrow() const { return reinterpret_cast<BFloat16*>(data_); }

  // The parts stay out of line: the loop's body is large already, and they run once a row.
  HWY_NOINLINE Vector LoadPart(VectorTag d, int64_t j, size_t count) const {
    if (wide_) {
#if HWY_MEM_OPS_MIGHT_FAULT
      return LoadThroughBuffer(Wide() + j, count,
                               [d](const float* from) { return hn::Load(d, from); });
#else
      return hn::MaskedLoad(hn::FirstN(d, count), d, Wide() + j);
#endif
    }
    return LoadThroughBuffer(Narrow() + j, count,
                             [d](const BFloat16* from) { return WidenBFloat16(d, from); });
  }

  HWY_NOINLINE void StorePart(VectorTag d, Vector v, int64_t j, size_t count) const {
    if (wide_) {
#if HWY_MEM_OPS_MIGHT_FAULT
      HWY_ALIGN float buffer[hn::MaxLanes(VectorTag())];
      hn::Store(v, d, buffer);
      std::memcpy(Wide() + j, buffer, count * sizeof(float));
#else
      hn::BlendedStore(v, hn::FirstN(d, count), d, Wide() + j);
#endif
      return;
    }
    HWY_ALIGN BFloat16 buffer[hn::MaxLanes(VectorTag())];
    NarrowToBFloat16(v, buffer);
    std::memcpy(static_cast<void*>(Narrow() + j), buffer, count * sizeof(BFloat16));
  }

  bool wide_ = true;
  char* data_ = nullptr;
};

// The element at an offset, for columns, scalars.
inline float ScalarAt(const PointwiseSlot& slot, int64_t offset) {
  return slot.dtype == DType::kFloat32
             ? static_cast<const float*>(slot.data)[offset]
             : static_cast<float>(static_cast<const BFloat16*>(slot.data)[offset]);
}

}  // namespace HWY_NAMESPACE
}  // namespace turbolstm
HWY_AFTER_NAMESPACE();

#endif  // Highway's toggled include guard
