// Operators that make a row of their result from one row of each operand.

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "base/philox.h"
#include "execution/testing/operators_fixture_cuda.h"
#include "ops/rows/random_mask.h"

namespace turbolstm::cuda {
namespace {

TEST_F(OperatorsCuda, ConstantLengthsAndRowCount) {
  Everywhere([](Scene& scene, int64_t) {
    OperatorCall call = Call(Op::kConstant, Domain::kStatic, 1);
    call.attributes.number = 1.5;
    scene.CheckRows(call, {}, scene.AnyFloat(), [](auto...) { return Wanted{1.5}; });
    call = Call(Op::kLengths, Domain::kBatch, 1);
    scene.CheckRows(call, {}, DType::kFloat32, [&](int64_t, int64_t b, int64_t) {
      return Wanted{static_cast<double>(scene.layout().length(b))};
    });
    for (const Domain domain : {Domain::kBatch, Domain::kStep}) {
      call = Call(Op::kRowCount, Domain::kStatic, 1);
      call.attributes.domain = domain;
      const int64_t rows =
          domain == Domain::kBatch ? scene.layout().batch() : scene.layout().rows();
      scene.CheckRows(call, {}, DType::kFloat32,
                      [&](auto...) { return Wanted{static_cast<double>(rows)}; });
    }
  });
}

TEST_F(OperatorsCuda, RandomMask) {
  Everywhere([](Scene& scene, int64_t n) {
    const Domain domain = AnyDomain(scene);
    scene.SetRun({.seed = 0x123456789abcull,
                  .training_step = 5,
                  .training = static_cast<int32_t>(scene.Int(0, 2))});
    OperatorCall call = Call(Op::kRandomMask, domain, n);
    call.attributes.number = 0.7;
    call.attributes.scale = 2;
    call.attributes.mean = 0.5;
    call.attributes.site = 3;
    const RandomSite site{scene.run().seed, scene.run().training_step, 3};
    scene.CheckRows(call, scene.AnyRange(domain), scene.AnyFloat(),
                    [&](int64_t t, int64_t b, int64_t i) {
                      if (!scene.run().training) return Wanted{0.5};
                      const int64_t number = scene.layout().sequence(b);
                      const int64_t row =
                          domain == Domain::kStep ? t * scene.layout().batch() + number : number;
                      const float draw = site.Uniform(static_cast<uint64_t>(row * n + i));
                      return Wanted{double{draw} < 0.7 ? 2.0 : 0.0};
                    });
  });
}

// A probability just above a draw is that draw in fp32; the draw is below it all the same.
TEST_F(OperatorsCuda, RandomMaskKeepsADrawBelowItsProbability) {
  constexpr int64_t kDraws = 64;
  const RandomSite site{7, 5, 3};
  Scene scene(1, 1, 1, {false, false});
  scene.SetRun({.seed = site.seed, .training_step = site.step, .training = 1});
  int met = 0;
  for (uint64_t i = 0; i < kDraws; ++i) {
    const double keep = double{site.Uniform(i)} + 0x1p-30;
    if (keep < 0.5) continue;  // numbers lie closer there
    ++met;
    OperatorCall call = Call(Op::kRandomMask, Domain::kStep, kDraws);
    call.attributes.number = keep;
    call.attributes.scale = 2;
    call.attributes.site = site.site;
    std::vector<float> wanted(kDraws);
    DrawRandomMask(site, 0, kDraws, keep, 2.0f, wanted.data());
    ASSERT_EQ(wanted[i], 2.0f);
    scene.CheckRows(call, {}, DType::kFloat32, [&](int64_t, int64_t, int64_t j) {
      return Wanted{double{wanted[static_cast<size_t>(j)]}};
    });
  }
  EXPECT_GT(met, 0);
}

TEST_F(OperatorsCuda, PadSliceAndConcat) {
  Everywhere([](Scene& scene, int64_t n) {
    const Domain domain = AnyDomain(scene);
    Value x = scene.Make(domain, n, scene.AnyFloat());
    if (domain == Domain::kStep) scene.DelayAnyhow(&x);
    OperatorCall call = Call(Op::kPad, domain, n + 5, {x.operand});
    call.attributes.begin = scene.Int(0, 5);
    const int64_t begin = call.attributes.begin;
    scene.CheckRows(call, scene.AnyRange(domain), scene.AnyFloat(),
                    [&](int64_t t, int64_t b, int64_t i) {
                      const bool inside = i >= begin && i < begin + n;
                      return Wanted{inside ? scene.At(x, t, b, i - begin) : 0};
                    });

    call = Call(Op::kSlice, domain, (n + 1) / 2, {x.operand});
    call.attributes.begin = n / 2;
    scene.CheckRows(
        call, scene.AnyRange(domain), scene.AnyFloat(),
        [&](int64_t t, int64_t b, int64_t i) { return Wanted{scene.At(x, t, b, n / 2 + i)}; });

    // More operands than one launch takes.
    const Value small = scene.Make(Domain::kBatch, 2, scene.AnyFloat());
    const int64_t parts =
        scene.layout().rows() > 1000 ? 2 : scene.OneOf<int64_t>({1, 2, 24, 25, 60});
    std::vector<WideOperand> operands(static_cast<size_t>(parts), small.operand);
    operands[static_cast<size_t>(parts / 2)] = x.operand;
    call = Call(Op::kConcat, domain, 2 * (parts - 1) + n, operands);
    scene.CheckRows(call, scene.AnyRange(domain), scene.AnyFloat(),
                    [&](int64_t t, int64_t b, int64_t i) {
                      const int64_t from = parts / 2 * 2;
                      if (i >= from && i < from + n) return Wanted{scene.At(x, t, b, i - from)};
                      return Wanted{scene.At(small, t, b, (i < from ? i : i - from - n) % 2)};
                    });
  });
}

TEST_F(OperatorsCuda, GatherAndOneHot) {
  Everywhere([](Scene& scene, int64_t n) {
    constexpr int64_t kEntries = 19;
    const Domain domain = AnyDomain(scene);
    // A table lies without gaps.
    Value table = scene.Make(Domain::kStatic, kEntries * n, scene.AnyFloat());
    Value index = scene.MakeIndex(domain, kEntries);
    if (domain == Domain::kStep) scene.DelayAnyhow(&index);
    const auto entry = [&](int64_t t, int64_t b) {
      return static_cast<int64_t>(scene.At(index, t, b, 0));
    };
    OperatorCall call = Call(Op::kGather, domain, n, {table.operand, index.operand});
    call.attributes.size = kEntries;
    scene.CheckRows(call, scene.AnyRange(domain), scene.AnyFloat(),
                    [&](int64_t t, int64_t b, int64_t i) {
                      return Wanted{table.host[static_cast<size_t>(entry(t, b) * n + i)]};
                    });
    call = Call(Op::kOneHot, domain, kEntries, {index.operand});
    scene.CheckRows(
        call, scene.AnyRange(domain), scene.AnyFloat(),
        [&](int64_t t, int64_t b, int64_t i) { return Wanted{entry(t, b) == i ? 1.0 : 0.0}; });
  });
}

TEST_F(OperatorsCuda, ReportsABadIndexAndReadsZeros) {
  for (const int64_t entries : {int64_t{4}, int64_t{5}}) {
    Scene scene(1, 6, 3, {true, false});
    const Value table = scene.Make(Domain::kStatic, entries * 3, DType::kFloat32, 1, 2);
    const Value index = scene.MakeIndex(Domain::kStep, 5);  // 4 is bad in a table of 4
    OperatorCall call = Call(Op::kGather, Domain::kStep, 3, {table.operand, index.operand});
    call.attributes.size = entries;
    call.stage = 8;
    const auto entry = [&](int64_t t, int64_t b) {
      return static_cast<int64_t>(scene.Element(index, t, b, 0));
    };
    int64_t bad = 0;
    scene.CheckRows(call, {0, 6, true}, DType::kFloat32, [&](int64_t t, int64_t b, int64_t i) {
      bad += entry(t, b) >= entries;
      const bool good = entry(t, b) < entries;
      return Wanted{good ? table.host[static_cast<size_t>(entry(t, b) * 3 + i)] : 0};
    });
    ASSERT_EQ(bad > 0, entries == 4);
    const IndexFault fault = scene.Fault();
    ASSERT_EQ(fault.found, entries == 4 ? 9 : 0);
    if (fault.found == 0) continue;
    EXPECT_EQ(fault.index, 4);
    int64_t place = 0;
    while (scene.layout().sequence(place) != fault.sequence) ++place;
    EXPECT_TRUE(scene.Valid(fault.time, place));
    EXPECT_EQ(entry(fault.time, place), 4);
  }
}

Wanted LogSumExp(const Scene& scene, const Value& x, int64_t t, int64_t b) {
  double most = -std::numeric_limits<double>::infinity(), sum = 0;
  for (int64_t i = 0; i < x.width; ++i) most = std::max(most, scene.At(x, t, b, i));
  for (int64_t i = 0; i < x.width; ++i) sum += std::exp(scene.At(x, t, b, i) - most);
  return {most + std::log(sum), std::abs(most) + std::abs(std::log(sum)) + 1};
}

TEST_F(OperatorsCuda, RowSumSoftmaxAndCrossEntropy) {
  Everywhere([](Scene& scene, int64_t n) {
    const Domain domain = AnyDomain(scene);
    Value x = scene.Make(domain, n, scene.AnyFloat(), -30, 30);
    if (domain == Domain::kStep) scene.DelayAnyhow(&x);
    OperatorCall call = Call(Op::kRowSum, domain, 1, {x.operand});
    scene.CheckRows(call, scene.AnyRange(domain), scene.AnyFloat(),
                    [&](int64_t t, int64_t b, int64_t) {
                      Wanted want;
                      for (int64_t k = 0; k < n; ++k) {
                        want.value += scene.At(x, t, b, k);
                        want.magnitude += std::abs(scene.At(x, t, b, k));
                      }
                      return want;
                    });
    if (n == 0) return;
    std::map<std::pair<int64_t, int64_t>, Wanted> sums;
    const auto log_sum = [&](int64_t t, int64_t b) {
      const auto [at, added] = sums.try_emplace({t, b});
      if (added) at->second = LogSumExp(scene, x, t, b);
      return at->second;
    };
    call = Call(Op::kSoftmax, domain, n, {x.operand});
    scene.CheckRows(call, scene.AnyRange(domain), scene.AnyFloat(),
                    [&](int64_t t, int64_t b, int64_t i) {
                      // An exponent's rounding is that of its argument.
                      const double p = std::exp(scene.At(x, t, b, i) - log_sum(t, b).value);
                      return Wanted{p, 4 * p};
                    });
    Value target = scene.MakeIndex(domain, n);
    call = Call(Op::kCrossEntropy, domain, 1, {x.operand, target.operand});
    scene.CheckRows(call, scene.AnyRange(domain), scene.AnyFloat(),
                    [&](int64_t t, int64_t b, int64_t) {
                      const auto index = static_cast<int64_t>(scene.At(target, t, b, 0));
                      const Wanted sum = log_sum(t, b);
                      return Wanted{sum.value - scene.At(x, t, b, index), sum.magnitude};
                    });
  });
}

TEST_F(OperatorsCuda, SoftmaxOfManyClasses) {
  Scene scene(3, 4, 9, {true, false});
  constexpr int64_t kClasses = 20000;
  const Value x = scene.Make(Domain::kStep, kClasses, DType::kFloat32, -10, 90);
  std::map<std::pair<int64_t, int64_t>, double> sums;
  for (int64_t t = 0; t < 4; ++t) {
    for (int64_t b = 0; b < 9; ++b) sums[{t, b}] = LogSumExp(scene, x, t, b).value;
  }
  scene.CheckRows(Call(Op::kSoftmax, Domain::kStep, kClasses, {x.operand}), {0, 4, true},
                  DType::kFloat32, [&](int64_t t, int64_t b, int64_t i) {
                    const double p = std::exp(scene.At(x, t, b, i) - sums[{t, b}]);
                    return Wanted{p, 8 * p + 1e-30};
                  });
}

}  // namespace
}  // namespace turbolstm::cuda
