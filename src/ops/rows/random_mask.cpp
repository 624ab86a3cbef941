#include "ops/rows/random_mask.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/rows/random_mask.cpp"
#include <hwy/foreach_target.h>
// clang-format off: after foreach_target.h
#include <hwy/highway.h>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace turbolstm {
namespace HWY_NAMESPACE {
namespace {

#if HWY_TARGET == HWY_SCALAR
void DrawMask(const RandomSite& site, uint64_t block, int64_t blocks, float bound, float scale,
              float* y) {
  for (int64_t i = 0; i < blocks; ++i) {
    for (const uint32_t bits : site.Block(block + static_cast<uint64_t>(i))) {
      *y++ = RandomSite::UniformFrom(bits) < bound ? scale : 0.0f;
    }
  }
}
#else

namespace hn = hwy::HWY_NAMESPACE;
using Lane = hn::ScalableTag<uint64_t>;
using Lanes = hn::Vec<Lane>;

// One word of the counters of several blocks, each in the lower half of its lane. What the upper
// halves hold never reaches a lower one.
struct Counters {
  Lanes word[4];
};

HWY_INLINE Lanes Product(Lane d, Lanes words, uint32_t factor) {
  const hn::Repartition<uint32_t, Lane> d32;
  return hn::MulEven(hn::BitCast(d32, words), hn::Set(d32, factor));
}

// As Philox4x32, which explains it.
HWY_INLINE Counters Philox(Lane d, Counters c, uint32_t key0, uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const Lanes a = Product(d, c.word[0], 0xD2511F53u);
    const Lanes b = Product(d, c.word[2], 0xCD9E8D57u);
    const Lanes first = hn::Xor(hn::Xor(hn::ShiftRight<32>(b), c.word[1]), hn::Set(d, key0));
    const Lanes third = hn::Xor(hn::Xor(hn::ShiftRight<32>(a), c.word[3]), hn::Set(d, key1));
    c = {{first, b, third, a}};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return c;
}

// Words of the blocks from `block` on, as many as there are lanes, in the order of their draws.
HWY_INLINE void DrawBlocks(Lane d, const RandomSite& site, uint64_t block, uint64_t* words) {
  const Lanes index = hn::Add(hn::Set(d, block), hn::Iota(d, 0));
  const Counters c =
      Philox(d, {{index, hn::ShiftRight<32>(index), hn::Set(d, site.step), hn::Set(d, site.site)}},
             static_cast<uint32_t>(site.seed), static_cast<uint32_t>(site.seed >> 32));
  const Lanes low = hn::Set(d, 0xffffffffu);
  const Lanes even = hn::Or(hn::And(c.word[0], low), hn::ShiftLeft<32>(c.word[1]));
  const Lanes odd = hn::Or(hn::And(c.word[2], low), hn::ShiftLeft<32>(c.word[3]));
  hn::StoreInterleaved2(even, odd, d, words);
}

void DrawMask(const RandomSite& site, uint64_t block, int64_t blocks, float bound, float scale,
              float* y) {
  const Lane d;
  const hn::ScalableTag<float> df;
  const hn::RebindToUnsigned<decltype(df)> du;
  const hn::RebindToSigned<decltype(df)> di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  HWY_ALIGN uint64_t words[2 * hn::MaxLanes(d)];
  for (int64_t i = 0; i < blocks; i += lanes) {
    DrawBlocks(d, site, block + static_cast<uint64_t>(i), words);
    const int64_t count = 4 * std::min(lanes, blocks - i);
    HWY_ALIGN float mask[4 * hn::MaxLanes(d)];
    for (size_t j = 0; j < 4 * hn::Lanes(d); j += hn::Lanes(df)) {
      const auto bits = hn::Load(du, reinterpret_cast<const uint32_t*>(words) + j);
      const auto uniform = hn::Mul(hn::ConvertTo(df, hn::BitCast(di, hn::ShiftRight<8>(bits))),
                                   hn::Set(df, 0x1p-24f));
      const auto kept = hn::Lt(uniform, hn::Set(df, bound));
      hn::Store(hn::IfThenElseZero(kept, hn::Set(df, scale)), df, mask + j);
    }
    std::copy_n(mask, count, y + 4 * i);
  }
}
#endif

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace turbolstm
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace turbolstm {

HWY_EXPORT(DrawMask);

void DrawRandomMask(const RandomSite& site, uint64_t first, int64_t n, double keep, float scale,
                    float* y) {
  const float bound = RandomSite::Bound(keep);
  const auto draw = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      y[i] = site.Uniform(first + static_cast<uint64_t>(i)) < bound ? scale : 0.0f;
    }
  };
  // A row may begin and end within a block.
  const int64_t head = std::min(n, static_cast<int64_t>((4 - first % 4) % 4));
  const int64_t blocks = (n - head) / 4;
  draw(0, head);
  HWY_DYNAMIC_DISPATCH(DrawMask)
  (site, (first + static_cast<uint64_t>(head)) / 4, blocks, bound, scale, y + head);
  draw(head + 4 * blocks, n);
}

}  // namespace turbolstm
#endif
