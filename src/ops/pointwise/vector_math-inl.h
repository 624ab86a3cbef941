// Elementary functions on vectors of float, for inclusion by sources that Highway compiles once per
// target. Everything is computed by explicit multiplications, additions and MulAdd in a fixed
// order, so that the bits depend on the argument and the target alone.
//
// Polynomials are minimax fits (Remez exchange in 40 digits, then rounded to float) of the function
// named at each, for the relative error of the whole result.

#include <cmath>
#include <limits>

// clang-format off: Highway's toggled include guard
#if defined(TL_OPS_POINTWISE_VECTOR_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TL_OPS_POINTWISE_VECTOR_MATH_INL_H_
#undef TL_OPS_POINTWISE_VECTOR_MATH_INL_H_
#else
#define TL_OPS_POINTWISE_VECTOR_MATH_INL_H_
#endif
// clang-format on

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace turbolstm {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// min(x, bound) and max(x, bound) that keep a NaN in x. On x86 the instruction returns its second
// operand when one is NaN; other targets differ.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V AtMost(D d, float bound, V x) {
  const V limit = hn::Set(d, bound);
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR
  return hn::Min(limit, x);
#else
  return hn::IfThenElse(hn::Gt(x, limit), limit, x);
#endif
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V AtLeast(D d, float bound, V x) {
  const V limit = hn::Set(d, bound);
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR
  return hn::Max(limit, x);
#else
  return hn::IfThenElse(hn::Lt(x, limit), limit, x);
#endif
}

// c[0] + c[1] x + ..., the last coefficient first.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Polynomial(D d, V, float c0) {
  return hn::Set(d, c0);
}
template <class D, class V = hn::Vec<D>, typename... Rest>
HWY_INLINE V Polynomial(D d, V x, float c0, Rest... rest) {
  return hn::MulAdd(Polynomial(d, x, rest...), x, hn::Set(d, c0));
}

// Adding this to |v| < 2^22 leaves round(v) in the low bits of the sum.
inline constexpr float kRoundingShift = 0x1.8p23f;
inline constexpr float kLn2High = 0.693359375f;  // 9 bits, so that n * kLn2High is exact
inline constexpr float kLn2Low = -2.12194440e-4f;

// exp(x) = 2^n (1 + fraction) with |fraction| < 0.42; exponent holds n << 23. |x| < 2^14.
template <class D>
struct ExpParts {
  hn::Vec<D> fraction;
  hn::Vec<hn::RebindToSigned<D>> exponent;
};

template <class D, class V = hn::Vec<D>>
HWY_INLINE ExpParts<D> SplitExp(D d, V x) {
  const hn::RebindToSigned<D> di;
  const V shift = hn::Set(d, kRoundingShift);
  const V shifted = hn::MulAdd(x, hn::Set(d, 1.44269504f), shift);
  const V n = hn::Sub(shifted, shift);
  const V r = hn::NegMulAdd(n, hn::Set(d, kLn2Low), hn::NegMulAdd(n, hn::Set(d, kLn2High), x));
  // (exp(r) - 1 - r) / r^2 for |r| <= ln(2) / 2
  const V q = Polynomial(d, r, 0.5f, 0.166665182f, 0.0416662060f, 0.00836891774f, 0.00139505416f);
  return {hn::MulAdd(hn::Mul(r, r), q, r), hn::ShiftLeft<23>(hn::BitCast(di, shifted))};
}

// 2^n from n << 23, for -127 <= n <= 127; 0 for -127.
template <class D, class VI>
HWY_INLINE hn::Vec<D> PowerOfTwo(D d, VI exponent) {
  const hn::RebindToSigned<D> di;
  return hn::BitCast(d, hn::Add(exponent, hn::Set(di, 0x3f800000)));
}

// exp(x) for x <= 87; 0 below -87.7, where the result would be no normal number.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V ExpFlushed(D d, V x) {
  const ExpParts<D> parts = SplitExp(d, AtLeast(d, -88.0f, x));
  const V scale = PowerOfTwo(d, parts.exponent);
  return hn::MulAdd(scale, parts.fraction, scale);
}

// Gradual underflow, infinity above 88.72.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Exp(D d, V x) {
  const ExpParts<D> parts = SplitExp(d, AtMost(d, 90.0f, AtLeast(d, -110.0f, x)));
  // The scale is applied in two steps because 2^n itself may leave the range.
  const auto half = hn::ShiftLeft<23>(hn::ShiftRight<24>(parts.exponent));
  const V mantissa = hn::Add(parts.fraction, hn::Set(d, 1.0f));
  const V scaled = hn::Mul(mantissa, PowerOfTwo(d, half));
  return hn::Mul(scaled, PowerOfTwo(d, hn::Sub(parts.exponent, half)));
}

// e / (1 + e) with e = exp(x): relative accuracy down to where exp(x) leaves the normal range.
// At 30 the quotient is 1 already.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Sigmoid(D d, V x) {
  const V e = ExpFlushed(d, AtMost(d, 30.0f, x));
  return hn::Div(e, hn::Add(e, hn::Set(d, 1.0f)));
}

// Odd. Where |x| is small x + x^3 P, elsewhere 1 - 2 / (1 + exp(2 |x|)): what is added is less than
// half the result in both, so that its rounding hardly shows. At 10 the result is 1.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Tanh(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  const V magnitude = AtMost(d, 10.0f, hn::Abs(x));
  const ExpParts<D> parts = SplitExp(d, hn::Add(magnitude, magnitude));
  const V scale = PowerOfTwo(d, parts.exponent);
  const V e_plus_one = hn::MulAdd(scale, parts.fraction, hn::Add(scale, one));
  const V large = hn::Sub(one, hn::Div(hn::Set(d, 2.0f), e_plus_one));
  // (tanh(x) / x - 1) / x^2 for |x| <= 0.7
  const V z = hn::Mul(x, x);
  const V p =
      Polynomial(d, z, -0.333331913f, 0.13329111f, -0.0535588562f, 0.0200919602f, -0.0051386538f);
  const V small = hn::MulAdd(hn::Mul(x, z), p, x);
  return hn::IfThenElse(hn::Lt(magnitude, hn::Set(d, 0.7f)), small, hn::CopySign(large, x));
}

// log(1 + e) for 0 <= e <= 1: with s = e / (2 + e), log(1 + e) = 2 atanh(s) = e - s (e - 2 s^2 Q).
template <class D, class V = hn::Vec<D>>
HWY_INLINE V LogOnePlus(D d, V e) {
  const V s = hn::Div(e, hn::Add(e, hn::Set(d, 2.0f)));
  const V z = hn::Mul(s, s);
  // 2 (atanh(s) / s - 1) / s^2 for s^2 <= 1/9
  const V q = Polynomial(d, z, 0.666664124f, 0.400216997f, 0.279991418f, 0.280244589f);
  return hn::NegMulAdd(s, hn::NegMulAdd(z, q, e), e);
}

// max(x, 0) + log(1 + exp(-|x|))
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Softplus(D d, V x) {
  const V tail = LogOnePlus(d, ExpFlushed(d, hn::Neg(hn::Abs(x))));
  return hn::Add(AtLeast(d, 0.0f, x), tail);
}

// -Softplus(-x)
template <class D, class V = hn::Vec<D>>
HWY_INLINE V LogSigmoid(D d, V x) {
  return hn::Neg(Softplus(d, hn::Neg(x)));
}

// With x = 2^k m, m in [sqrt(1/2), sqrt(2)), f = m - 1, s = f / (2 + f):
// log(x) = k ln 2 + f - s (f - 2 s^2 Q).
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Log(D d, V x) {
  const hn::RebindToSigned<D> di;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto tiny = hn::Lt(x, hn::Set(d, std::numeric_limits<float>::min()));
  const V normal = hn::IfThenElse(tiny, hn::Mul(x, hn::Set(d, 0x1p23f)), x);
  const auto bits = hn::BitCast(di, normal);
  const auto k = hn::ShiftRight<23>(hn::Sub(bits, hn::Set(di, 0x3f3504f3)));
  const V m = hn::BitCast(d, hn::Sub(bits, hn::ShiftLeft<23>(k)));
  const V exponent = hn::Sub(hn::ConvertTo(d, k), hn::IfThenElseZero(tiny, hn::Set(d, 23.0f)));

  const V f = hn::Sub(m, hn::Set(d, 1.0f));
  const V s = hn::Div(f, hn::Add(f, hn::Set(d, 2.0f)));
  const V z = hn::Mul(s, s);
  // 2 (atanh(s) / s - 1) / s^2 for s^2 <= 0.0295
  const V q = Polynomial(d, z, 0.666667759f, 0.399775207f, 0.298723102f);
  const V low = hn::MulSub(s, hn::NegMulAdd(z, q, f), hn::Mul(exponent, hn::Set(d, kLn2Low)));
  const V y = hn::MulAdd(exponent, hn::Set(d, kLn2High), hn::Sub(f, low));

  const V finite = hn::IfThenElse(hn::Lt(x, hn::Set(d, kInfinity)), y, x);
  const V above = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Set(d, -kInfinity), finite);
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Set(d, std::numeric_limits<float>::quiet_NaN()),
                        above);
}

// Where the reduction of Sine is exact; larger arguments go to the C library, lane by lane.
inline constexpr float kSineLimit = 1024.0f;

template <bool kCosine, class D, class V = hn::Vec<D>>
HWY_NOINLINE V SineOfLarge(D d, V x, V small_result) {
  HWY_ALIGN float arguments[hn::MaxLanes(d)];
  HWY_ALIGN float results[hn::MaxLanes(d)];
  hn::Store(x, d, arguments);
  hn::Store(small_result, d, results);
  for (size_t i = 0; i < hn::Lanes(d); ++i) {
    if (std::abs(arguments[i]) < kSineLimit) continue;
    results[i] = kCosine ? std::cos(arguments[i]) : std::sin(arguments[i]);
  }
  return hn::Load(d, results);
}

// sin(x), or cos(x) = sin(x + pi / 2): x = n pi / 2 + r, |r| <= pi / 4, and n says which of the two
// series, and which sign.
template <bool kCosine, class D, class V = hn::Vec<D>>
HWY_INLINE V SineOrCosine(D d, V x) {
  const hn::RebindToSigned<D> di;
  const V shift = hn::Set(d, kRoundingShift);
  const V shifted = hn::MulAdd(x, hn::Set(d, 0.636619772f), shift);
  const V n = hn::Sub(shifted, shift);
  // pi / 2 in three parts; the first two are short, so that their products with n are exact.
  V r = hn::NegMulAdd(n, hn::Set(d, 0x1.92p0f), x);
  r = hn::NegMulAdd(n, hn::Set(d, 0x1.fb4p-12f), r);
  r = hn::NegMulAdd(n, hn::Set(d, 0x1.4442d2p-24f), r);
  const V z = hn::Mul(r, r);
  // (sin(r) / r - 1) / r^2 and (cos(r) - 1 + r^2 / 2) / r^4 for |r| <= pi / 4
  const V p = Polynomial(d, z, -0.166666552f, 0.00833217334f, -0.000195166562f);
  const V q = Polynomial(d, z, 0.0416666456f, -0.00138873619f, 2.44377297e-5f);
  const V sine = hn::MulAdd(hn::Mul(r, z), p, r);
  const V cosine =
      hn::MulAdd(hn::Mul(z, z), q, hn::NegMulAdd(z, hn::Set(d, 0.5f), hn::Set(d, 1.0f)));

  auto quadrant = hn::BitCast(di, shifted);
  if constexpr (kCosine) quadrant = hn::Add(quadrant, hn::Set(di, 1));
  const auto one = hn::Set(di, 1);
  const auto odd = hn::RebindMask(d, hn::Eq(hn::And(quadrant, one), one));
  const V sign = hn::BitCast(d, hn::ShiftLeft<30>(hn::And(quadrant, hn::Set(di, 2))));
  const V result = hn::Xor(hn::IfThenElse(odd, cosine, sine), sign);
  if (HWY_LIKELY(hn::AllTrue(d, hn::Lt(hn::Abs(x), hn::Set(d, kSineLimit))))) return result;
  return SineOfLarge<kCosine>(d, x, result);
}

}  // namespace HWY_NAMESPACE
}  // namespace turbolstm
HWY_AFTER_NAMESPACE();

#endif  // Highway's toggled include guard
