// Sums over rows, copies, and what goes for all operators.

#include <gtest/gtest.h>

#include <tuple>

#include "base/philox.h"
#include "execution/testing/operators_fixture_cuda.h"

namespace turbolstm::cuda {
namespace {

TEST_F(OperatorsCuda, SumRows) {
  Everywhere([](Scene& scene, int64_t n) {
    const Domain domain = AnyDomain(scene);
    Value x = scene.Make(domain, n, scene.AnyFloat());
    if (domain == Domain::kStep) scene.DelayAnyhow(&x);
    const RowRange range = scene.AnyRange(domain);
    std::vector<Wanted> sums(static_cast<size_t>(n));
    for (int64_t t = range.time_begin; t < range.time_begin + range.steps; ++t) {
      for (int64_t b = 0; b < scene.layout().batch(); ++b) {
        if (range.padded && !scene.Valid(t, b)) continue;
        for (int64_t i = 0; i < n; ++i) {
          const double value = scene.At(x, t, b, i);
          sums[static_cast<size_t>(i)].value += value;
          sums[static_cast<size_t>(i)].magnitude += std::abs(value);
        }
      }
    }
    std::byte* scratch = scene.Allocate(SumRowsScratchBytes(n));
    scene.CheckArray(
        n, DType::kFloat32,
        [&](std::byte* y) {
          SumRows(x.operand, range, reinterpret_cast<float*>(y), scratch, scene.context());
        },
        [&](int64_t i) { return sums[static_cast<size_t>(i)]; });
  });
}

TEST_F(OperatorsCuda, ScatterAdd) {
  Everywhere([](Scene& scene, int64_t n) {
    const int64_t entries = scene.OneOf<int64_t>({1, 2, 19, 300});
    const Domain domain = AnyDomain(scene);
    Value g = scene.Make(domain, n, scene.AnyFloat());
    Value index = scene.MakeIndex(domain, entries);
    if (domain == Domain::kStep) scene.DelayAnyhow(&g);
    const RowRange range = scene.AnyRange(domain);
    std::vector<Wanted> sums(static_cast<size_t>(entries * n));
    for (int64_t t = range.time_begin; t < range.time_begin + range.steps; ++t) {
      for (int64_t b = 0; b < scene.layout().batch(); ++b) {
        if (range.padded && !scene.Valid(t, b)) continue;
        const auto entry = static_cast<int64_t>(scene.Element(index, t, b, 0));
        for (int64_t i = 0; i < n; ++i) {
          const double value = scene.At(g, t, b, i);
          sums[static_cast<size_t>(entry * n + i)].value += value;
          sums[static_cast<size_t>(entry * n + i)].magnitude += std::abs(value);
        }
      }
    }
    const int64_t rows = range.steps * scene.layout().batch();
    std::byte* scratch = scene.Allocate(ScatterAddScratchBytes(rows, entries));
    scene.CheckArray(
        entries * n, DType::kFloat32,
        [&](std::byte* y) {
          ScatterAdd(index.operand, g.operand, range, entries, reinterpret_cast<float*>(y), scratch,
                     0, scene.context());
        },
        [&](int64_t i) { return sums[static_cast<size_t>(i)]; });
    EXPECT_EQ(scene.Fault().found, 0);
  });
}

TEST_F(OperatorsCuda, ScatterAddReportsABadIndexAndLeavesItOut) {
  Scene scene(1, 1, 3, {false, false});
  const Value g = scene.Make(Domain::kBatch, 1, DType::kFloat32);
  Value index = scene.MakeIndex(Domain::kBatch, 1);
  const std::vector<int32_t> indices = {1, -7, 1};
  index.operand.rows.data = reinterpret_cast<const char*>(scene.Upload(indices));
  index.operand.rows.row_bytes = sizeof(int32_t);
  std::byte* scratch = scene.Allocate(ScatterAddScratchBytes(3, 2));
  scene.CheckArray(
      2, DType::kFloat32,
      [&](std::byte* y) {
        ScatterAdd(index.operand, g.operand, {}, 2, reinterpret_cast<float*>(y), scratch, 4,
                   scene.context());
      },
      [&](int64_t i) {
        return Wanted{i == 1 ? g.host[0] + g.host[2] : 0, 4};
      });
  EXPECT_EQ(scene.Fault().found, 5);
  EXPECT_EQ(scene.Fault().index, -7);
  EXPECT_EQ(scene.Fault().sequence, 1);
}

TEST_F(OperatorsCuda, GatherRows) {
  Everywhere([](Scene& scene, int64_t n) {
    const bool indices = scene.Int(0, 5) == 0;
    const Domain domain = scene.OneOf({Domain::kStatic, Domain::kBatch, Domain::kStep});
    Value x = indices ? scene.MakeIndex(domain, int64_t{1} << 31)
                      : scene.Make(domain, n, scene.AnyFloat());
    if (domain == Domain::kStep) scene.DelayAnyhow(&x);
    const DType dtype = indices ? DType::kInt32 : scene.AnyFloat();
    const RowRange range = scene.AnyRange(Domain::kStep);
    const int64_t batch = scene.layout().batch();
    scene.CheckArray(
        range.steps * batch * x.width, dtype,
        [&](std::byte* y) { GatherRows(x.operand, range, dtype, y, scene.context()); },
        [&](int64_t k) {
          const int64_t row = k / x.width;
          const int64_t t = range.time_begin + row / batch;
          if (!scene.Valid(t, row % batch)) return Wanted{};
          return Wanted{scene.At(x, t, row % batch, k % x.width)};
        });
  });
}

TEST_F(OperatorsCuda, ConvertCopyAndTranspose) {
  for (const int64_t count : {0, 1, 3, 4, 1027, 1 << 20}) {
    Scene scene(5, 0, 0, {false, false});
    for (const DType from : kFloats) {
      const Value x = scene.Make(Domain::kStatic, count, from);
      for (const DType to : kFloats) {
        scene.CheckArray(
            count, to,
            [&](std::byte* y) {
              Convert(x.operand.rows.data, from, y, to, count, scene.context().stream);
            },
            [&](int64_t i) { return Wanted{x.host[static_cast<size_t>(i)]}; });
      }
    }
  }
  for (const auto& [matrices, rows, columns] : {std::tuple<int64_t, int64_t, int64_t>{1, 0, 5},
                                                {1, 1, 1},
                                                {2, 17, 3},
                                                {3, 64, 33},
                                                {1, 300, 700}}) {
    Scene scene(6, 0, 0, {false, false});
    const int64_t m = rows, n = columns;
    const Value x = scene.Make(Domain::kStatic, matrices * m * n, DType::kFloat32);
    const auto* data = reinterpret_cast<const float*>(x.operand.rows.data);
    scene.CheckArray(
        matrices * m * n, DType::kFloat32,
        [&, k = matrices](std::byte* y) {
          TransposeStatic(data, reinterpret_cast<float*>(y), k, m, n, scene.context().stream);
        },
        [&](int64_t i) {
          const int64_t at = i % (m * n);
          return Wanted{x.host[static_cast<size_t>(i - at + at % m * n + at / m)]};
        });
    scene.CheckArray(
        matrices * m * n, DType::kFloat32,
        [&, k = matrices](std::byte* y) {
          CopyStatic(data, reinterpret_cast<float*>(y), k * m * n, scene.context().stream);
        },
        [&](int64_t i) { return Wanted{x.host[static_cast<size_t>(i)]}; });
  }
}

TEST_F(OperatorsCuda, RecordedRunsHaveTheBitsOfDirectOnes) {
  constexpr int64_t kEntries = 500, kWidth = 20, kRows = 40 * 300;
  Scene scene(9, 40, 300, {true, false});
  const Value g = scene.Make(Domain::kStep, kWidth, DType::kFloat32);
  const Value index = scene.MakeIndex(Domain::kStep, kEntries);
  std::byte* scratch = scene.Allocate(ScatterAddScratchBytes(kRows, kEntries));
  constexpr int64_t kBytes = kEntries * kWidth * int64_t{sizeof(float)};
  std::byte* y = scene.Allocate(kBytes);
  const auto enqueue = [&] {
    ScatterAdd(index.operand, g.operand, {0, 40, true}, kEntries, reinterpret_cast<float*>(y),
               scratch, 0, scene.context());
  };
  const RecordedGraph graph = RecordedGraph::Record(scene.stream(), enqueue);
  const std::vector<std::byte> direct = scene.RunTwice(y, kBytes, enqueue);
  EXPECT_TRUE(direct == scene.RunTwice(y, kBytes, [&] { graph.Launch(scene.stream()); }));
}

TEST_F(OperatorsCuda, MoreElementsThan32BitsCount) {
  constexpr int64_t kSteps = 70000, kBatch = 512, kWidth = 64;
  static_assert(kSteps * kBatch * kWidth > int64_t{1} << 31);
  Scene scene(4, kSteps, kBatch, {false, false});
  scene.SetRun({.seed = 1, .training_step = 2, .training = 1});
  OperatorCall call = Call(Op::kRandomMask, Domain::kStep, kWidth);
  call.attributes.number = 0.5;
  std::byte* mask = scene.Allocate(kSteps * kBatch * kWidth * 2);
  call.output.data = reinterpret_cast<char*>(mask);
  call.output.row_bytes = kWidth * 2;
  call.output.period = kSteps;
  call.output.dtype = static_cast<signed char>(DType::kBFloat16);
  RunRowOperator(call, {0, kSteps, true}, scene.context());
  const RandomSite site{1, 2, 0};
  for (const int64_t row : {int64_t{0}, kSteps * kBatch / 2 + 77, kSteps * kBatch - 1}) {
    const std::vector<std::byte> got = scene.Download(mask + row * kWidth * 2, kWidth * 2);
    for (int64_t i = 0; i < kWidth; ++i) {
      const bool kept = site.Uniform(static_cast<uint64_t>(row * kWidth + i)) < 0.5f;
      ASSERT_EQ(Decode(got.data() + 2 * i, DType::kBFloat16), kept) << row << " " << i;
    }
  }

  // Of the last step and of all: every element counts.
  WideOperand x{{}, kWidth};
  x.rows.data = call.output.data;
  x.rows.row_bytes = call.output.row_bytes;
  x.rows.period = kSteps;
  x.rows.kind = RowKind::kStep;
  x.rows.dtype = call.output.dtype;
  OperatorCall sum_time = Call(Op::kSumTime, Domain::kBatch, kWidth, {x});
  double total = 0;
  scene.CheckSequences(sum_time, Domain::kBatch, DType::kFloat32, [&](auto...) {
    // Half of the steps, within what chance makes of it.
    return Wanted{kSteps / 2.0, kSteps / 2.0 * 0.02 / kSumTolerance};
  });
  std::byte* scratch = scene.Allocate(SumRowsScratchBytes(kWidth));
  std::byte* y = scene.Allocate(kWidth * 4);
  SumRows(x, {0, kSteps, true}, reinterpret_cast<float*>(y), scratch, scene.context());
  const std::vector<std::byte> sums = scene.Download(y, kWidth * 4);
  for (int64_t i = 0; i < kWidth; ++i) total += Decode(sums.data() + 4 * i, DType::kFloat32);
  EXPECT_NEAR(total / (static_cast<double>(kSteps) * kBatch * kWidth), 0.5, 1e-4);
}

}  // namespace
}  // namespace turbolstm::cuda
