// Operators that look at whole sequences.

#include <gtest/gtest.h>

#include "execution/testing/operators_fixture_cuda.h"

namespace turbolstm::cuda {
namespace {

TEST_F(OperatorsCuda, SumTimeAndFirstMaxMask) {
  Everywhere([](Scene& scene, int64_t n) {
    Value x = scene.Make(Domain::kStep, n, scene.AnyFloat());
    scene.DelayAnyhow(&x);
    std::vector<Wanted> sums(static_cast<size_t>(scene.layout().batch() * n));
    std::vector<int64_t> first(sums.size());
    for (int64_t b = 0; b < scene.layout().batch(); ++b) {
      for (int64_t i = 0; i < n; ++i) {
        const auto at = static_cast<size_t>(b * n + i);
        double most = -std::numeric_limits<double>::infinity();
        for (int64_t t = 0; t < scene.layout().length(b); ++t) {
          const double value = scene.At(x, t, b, i);
          sums[at].value += value;
          sums[at].magnitude += std::abs(value);
          if (value > most) first[at] = t;
          most = std::max(value, most);
        }
      }
    }
    scene.CheckSequences(
        Call(Op::kSumTime, Domain::kBatch, n, {x.operand}), Domain::kBatch, scene.AnyFloat(),
        [&](int64_t, int64_t b, int64_t i) { return sums[static_cast<size_t>(b * n + i)]; });
    scene.CheckSequences(Call(Op::kFirstMaxMask, Domain::kStep, n, {x.operand}), Domain::kStep,
                         scene.AnyFloat(), [&](int64_t t, int64_t b, int64_t i) {
                           return Wanted{first[static_cast<size_t>(b * n + i)] == t ? 1.0 : 0.0};
                         });
  });
}

TEST_F(OperatorsCuda, FinalsAndTheirGradients) {
  Everywhere([](Scene& scene, int64_t n) {
    const RowLayout& layout = scene.layout();
    const int64_t delay = scene.Int(1, 3);
    const Direction direction = scene.OneOf({Direction::kForward, Direction::kReverse});
    Value x = scene.Make(Domain::kStep, n, scene.AnyFloat());
    scene.Delay(&x, delay, direction, false);
    scene.CheckSequences(
        Call(Op::kFinal, Domain::kBatch, delay * n, {x.operand}), Domain::kBatch, scene.AnyFloat(),
        [&](int64_t, int64_t b, int64_t i) {
          const Walk walk = layout.WalkOf(b, direction);
          return Wanted{scene.AtLink(x, walk.Read(walk.length() + i / n, delay), b, i % n)};
        });

    Value g = scene.Make(Domain::kBatch, delay * n, scene.AnyFloat());
    g.operand.rows.direction = static_cast<signed char>(direction);
    OperatorCall call = Call(Op::kFinalGrad, Domain::kStep, n, {g.operand});
    call.attributes.size = delay;
    scene.CheckSequences(call, Domain::kStep, scene.AnyFloat(),
                         [&](int64_t t, int64_t b, int64_t i) {
                           const Walk walk = layout.WalkOf(b, direction);
                           const Link link = walk.ReadFinal(walk.Position(t), delay);
                           const bool found = link.kind == Link::Kind::kInit;
                           return Wanted{found ? scene.Element(g, t, b, link.index * n + i) : 0};
                         });

    call = Call(Op::kFinalInitGrad, Domain::kBatch, delay * n, {g.operand});
    call.attributes.size = delay;
    scene.CheckSequences(call, Domain::kBatch, scene.AnyFloat(),
                         [&](int64_t, int64_t b, int64_t i) {
                           const Walk walk = layout.WalkOf(b, direction);
                           Wanted want;
                           for (int64_t j = 0; j < delay; ++j) {
                             const Link link = walk.Read(walk.length() + j, delay);
                             if (link != Link{Link::Kind::kInit, i / n}) continue;
                             want.value += scene.Element(g, 0, b, j * n + i % n);
                           }
                           return want;
                         });
  });
}

TEST_F(OperatorsCuda, InitGrad) {
  Everywhere([](Scene& scene, int64_t n) {
    const RowLayout& layout = scene.layout();
    const int64_t delay = scene.Int(1, 3);
    const Direction direction = scene.OneOf({Direction::kForward, Direction::kReverse});
    Value g = scene.Make(Domain::kStep, n, scene.AnyFloat());
    g.operand.rows.direction = static_cast<signed char>(direction);
    std::vector<Wanted> sums(static_cast<size_t>(layout.batch() * delay * n));
    for (int64_t b = 0; b < layout.batch(); ++b) {
      const Walk walk = layout.WalkOf(b, direction);
      for (int64_t u = 0; u < walk.length(); ++u) {
        const Link link = walk.Read(u, delay);
        if (link.kind != Link::Kind::kInit) continue;
        for (int64_t i = 0; i < n; ++i) {
          const double value = scene.Element(g, walk.Position(u), b, i);
          Wanted& sum = sums[static_cast<size_t>((b * delay + link.index) * n + i)];
          sum.value += value;
          sum.magnitude += std::abs(value);
        }
      }
    }
    OperatorCall call = Call(Op::kInitGrad, Domain::kBatch, delay * n, {g.operand});
    call.attributes.size = delay;
    scene.CheckSequences(call, Domain::kBatch, scene.AnyFloat(),
                         [&](int64_t, int64_t b, int64_t i) {
                           return sums[static_cast<size_t>(b * delay * n + i)];
                         });
  });
}

}  // namespace
}  // namespace turbolstm::cuda
