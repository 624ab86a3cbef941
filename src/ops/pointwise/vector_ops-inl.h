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

// bf16 bits to float, exact.
template <class V16>
HWY_INLINE Vector WidenBFloat16(VectorTag d, V16 bits) {
  const hn::Rebind<uint32_t, VectorTag> d32;
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(d32, bits)));
}

using BFloat16Tag = hn::Rebind<uint16_t, VectorTag>;

// The bits of bf16, rounded to nearest, ties to even; NaN stays NaN (as BFloat16(float) does).
HWY_INLINE hn::Vec<BFloat16Tag> NarrowToBFloat16(Vector v) {
  const hn::Rebind<uint32_t, VectorTag> d32;
  const hn::Rebind<int32_t, VectorTag> di32;
  const auto bits = hn::BitCast(d32, v);
  const auto high = hn::ShiftRight<16>(bits);
  const auto odd = hn::And(high, hn::Set(d32, 1));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(d32, 0x7fff))));
  const auto nan = hn::RebindMask(d32, hn::IsNaN(v));
  const auto result = hn::IfThenElse(nan, hn::Or(high, hn::Set(d32, 0x40)), rounded);
  return hn::DemoteTo(BFloat16Tag(), hn::BitCast(di32, result));
}

// Less than a vector, without touching what lies beyond; the other lanes are 0.
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> LoadPart(D d, const T* from, size_t count) {
#if HWY_MEM_OPS_MIGHT_FAULT
  HWY_ALIGN T buffer[hn::MaxLanes(d)] = {};
  std::memcpy(buffer, from, count * sizeof(T));
  return hn::Load(d, buffer);
#else
  return hn::MaskedLoad(hn::FirstN(d, count), d, from);
#endif
}

template <class D, typename T = hn::TFromD<D>>
HWY_INLINE void StorePart(D d, hn::Vec<D> v, T* to, size_t count) {
#if HWY_MEM_OPS_MIGHT_FAULT
  HWY_ALIGN T buffer[hn::MaxLanes(d)];
  hn::Store(v, d, buffer);
  std::memcpy(to, buffer, count * sizeof(T));
#else
  hn::BlendedStore(v, hn::FirstN(d, count), d, to);
#endif
}

// One row of an element input or of an output.
class RowPointer {
 public:
  RowPointer(const PointwiseSlot& slot, int64_t r)
      : wide_(slot.dtype == DType::kFloat32),
        data_(static_cast<char*>(slot.data) + r * slot.row_stride * (wide_ ? 4 : 2)) {}

  // Elements j to j + count, where count is at most a vector; the other lanes are 0.
  HWY_INLINE Vector Load(VectorTag d, int64_t j, size_t count) const {
    if (HWY_UNLIKELY(count < hn::Lanes(d))) return Part(d, j, count);
    if (HWY_LIKELY(wide_)) return hn::LoadU(d, Wide() + j);
    return WidenBFloat16(d, hn::LoadU(BFloat16Tag(), Narrow() + j));
  }

  HWY_INLINE void Store(VectorTag d, Vector v, int64_t j, size_t count) const {
    if (HWY_UNLIKELY(count < hn::Lanes(d))) return StorePartly(d, v, j, count);
    if (HWY_LIKELY(wide_)) return hn::StoreU(v, d, Wide() + j);
    hn::StoreU(NarrowToBFloat16(v), BFloat16Tag(), Narrow() + j);
  }

 private:
  float* Wide() const { return reinterpret_cast<float*>(data_); }
  uint16_t* Narrow() const { return reinterpret_cast<uint16_t*>(data_); }

  // Out of line: the loop's body is large already, and these run once a row.
  HWY_NOINLINE Vector Part(VectorTag d, int64_t j, size_t count) const {
    if (wide_) return LoadPart(d, Wide() + j, count);
    return WidenBFloat16(d, LoadPart(BFloat16Tag(), Narrow() + j, count));
  }

  HWY_NOINLINE void StorePartly(VectorTag d, Vector v, int64_t j, size_t count) const {
    if (wide_) return StorePart(d, v, Wide() + j, count);
    StorePart(BFloat16Tag(), NarrowToBFloat16(v), Narrow() + j, count);
  }

  bool wide_;
  char* data_;
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
