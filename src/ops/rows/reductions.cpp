#include "ops/rows/reductions.h"

#include <algorithm>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/rows/reductions.cpp"
#include <hwy/foreach_target.h>
// clang-format off: after foreach_target.h
#include <hwy/highway.h>

#include "ops/pointwise/vector_ops-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace turbolstm {
namespace HWY_NAMESPACE {
namespace {

// Partial sums in double precision, one for each lane of a vector of float.
#if HWY_TARGET == HWY_SCALAR
class Sum {
 public:
  void Add(Vector v) { sum_ += double{hn::GetLane(v)}; }
  double Total() const { return sum_; }

 private:
  double sum_ = 0;
};
#else
class Sum {
 public:
  HWY_INLINE Sum() : low_(hn::Zero(d64_)), high_(hn::Zero(d64_)) {}
  HWY_INLINE void Add(Vector v) {
    const hn::Half<VectorTag> half;
    low_ = hn::Add(low_, hn::PromoteTo(d64_, hn::LowerHalf(half, v)));
    high_ = hn::Add(high_, hn::PromoteTo(d64_, hn::UpperHalf(half, v)));
  }
  HWY_INLINE double Total() const {
    return hn::GetLane(hn::SumOfLanes(d64_, hn::Add(low_, high_)));
  }

 private:
  static constexpr hn::ScalableTag<double> d64_{};
  hn::Vec<hn::ScalableTag<double> > low_;
  hn::Vec<hn::ScalableTag<double> > high_;
};
#endif

// f(x[i...], i, how many of the lanes count) for each vector of a row.
template <class F>
HWY_INLINE void ForEachVector(const float* x, int64_t n, F f) {
  const VectorTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) f(hn::LoadU(d, x + i), i, hn::Lanes(d));
  if (i < n) f(LoadPart(d, x + i, static_cast<size_t>(n - i)), i, static_cast<size_t>(n - i));
}

}  // namespace

float Max(const float* x, int64_t n) {
  const VectorTag d;
  const Vector least = hn::Set(d, -std::numeric_limits<float>::infinity());
  Vector most = least;
  ForEachVector(x, n, [&](Vector v, int64_t, size_t count) HWY_ATTR {
    most = hn::Max(most, hn::IfThenElse(hn::FirstN(d, count), v, least));
  });
  return hn::GetLane(hn::MaxOfLanes(d, most));
}

double SumOf(const float* x, int64_t n) {
  Sum sum;
  ForEachVector(x, n, [&](Vector v, int64_t, size_t) HWY_ATTR { sum.Add(v); });
  return sum.Total();
}

double SumOfExp(const float* x, int64_t n, float shift) {
  const VectorTag d;
  const Vector most = hn::Set(d, shift);
  Sum sum;
  ForEachVector(x, n, [&](Vector v, int64_t, size_t count) HWY_ATTR {
    sum.Add(hn::IfThenElseZero(hn::FirstN(d, count), ExpFlushed(d, hn::Sub(v, most))));
  });
  return sum.Total();
}

void ScaledExp(const float* x, int64_t n, float shift, float scale, float* y) {
  const VectorTag d;
  const Vector most = hn::Set(d, shift);
  const Vector factor = hn::Set(d, scale);
  ForEachVector(x, n, [&](Vector v, int64_t i, size_t count) HWY_ATTR {
    const Vector result = hn::Mul(ExpFlushed(d, hn::Sub(v, most)), factor);
    if (count == hn::Lanes(d)) {
      hn::StoreU(result, d, y + i);
    } else {
      StorePart(d, result, y + i, count);
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace turbolstm
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace turbolstm {

HWY_EXPORT(Max);
HWY_EXPORT(SumOf);
HWY_EXPORT(SumOfExp);
HWY_EXPORT(ScaledExp);

float MaxOfRow(const float* x, int64_t n) {
  return HWY_DYNAMIC_DISPATCH(Max)(x, n);
}

double SumOfRow(const float* x, int64_t n) {
  return HWY_DYNAMIC_DISPATCH(SumOf)(x, n);
}

double SumOfExpOfRow(const float* x, int64_t n, float shift) {
  return HWY_DYNAMIC_DISPATCH(SumOfExp)(x, n, shift);
}

void ScaledExpOfRow(const float* x, int64_t n, float shift, float scale, float* y) {
  HWY_DYNAMIC_DISPATCH(ScaledExp)(x, n, shift, scale, y);
}

}  // namespace turbolstm
#endif
