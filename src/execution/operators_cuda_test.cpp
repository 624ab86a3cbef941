// Every operator against plain double loops over graph/walk, at random shapes.

#include "execution/operators_cuda.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <random>

#include "backend/cuda/check_cuda.h"
#include "backend/cuda/runtime_cuda.h"
#include "base/error.h"
#include "base/philox.h"
#include "plan/row_layout.h"

namespace turbolstm::cuda {
namespace {

// Relative errors: of a sum, by the sum of magnitudes; and of rounding to a type.
constexpr double kSumTolerance = 2e-6;
double Rounding(DType dtype) {
  switch (dtype) {
    case DType::kBFloat16:
      return 0x1p-8;
    case DType::kFloat16:
      return 0x1p-10;
    default:
      return 0x1p-22;
  }
}

constexpr DType kFloats[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};

void Encode(double x, DType dtype, std::byte* at) {
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

double Decode(const std::byte* at, DType dtype) {
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

// A value on both sides: [T, B, width], [B, width] or [width].
struct Value {
  Domain domain = Domain::kStep;
  int64_t width = 0;
  std::vector<double> host;
  WideOperand operand;
  Domain init_domain = Domain::kStatic;
  std::vector<double> init;
};

struct Wanted {
  double value = 0;
  double magnitude = 0;  // of what was added up
};
// Element i of a row; time is 0 where there is none.
using WantElement = std::function<Wanted(int64_t t, int64_t b, int64_t i)>;

// Sequences, and values on them. Random where nothing is said.
class Scene {
 public:
  struct Options {
    bool lengths = true;
    bool resets = true;
  };

  Scene(uint32_t seed, int64_t steps, int64_t batch, Options options) : random_(seed) {
    std::vector<int32_t> lengths;
    std::vector<uint8_t> resets;
    if (options.lengths) {
      for (int64_t b = 0; b < batch; ++b) lengths.push_back(static_cast<int32_t>(Int(0, steps)));
    }
    if (options.resets) {
      for (int64_t i = 0; i < steps * batch; ++i) resets.push_back(Int(0, 4) == 0);
    }
    layout_ = RowLayout(steps, batch, lengths, resets);
    Sequences& sequences = context_.sequences;
    sequences.steps = steps;
    sequences.batch = batch;
    if (options.lengths) {
      std::vector<int32_t> places, numbers;
      for (int64_t b = 0; b < batch; ++b) {
        places.push_back(static_cast<int32_t>(layout_.length(b)));
        numbers.push_back(static_cast<int32_t>(layout_.sequence(b)));
      }
      sequences.lengths = reinterpret_cast<const int*>(Upload(places));
      sequences.numbers = reinterpret_cast<const int*>(Upload(numbers));
    }
    if (options.resets) {
      std::vector<uint8_t> by_place;
      for (int64_t i = 0; i < steps * batch; ++i) {
        const int64_t at = i / batch * batch + layout_.sequence(i % batch);
        by_place.push_back(resets[static_cast<size_t>(at)]);
      }
      sequences.resets = reinterpret_cast<const unsigned char*>(Upload(by_place));
    }
    context_.stream = stream_.get();
    context_.fault = reinterpret_cast<IndexFault*>(Upload(std::vector<IndexFault>(1)));
    SetRun({});
  }

  int64_t Int(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }
  template <typename T>
  T OneOf(std::initializer_list<T> choices) {
    return choices.begin()[Int(0, std::ssize(choices) - 1)];
  }
  DType AnyFloat() { return kFloats[Int(0, 2)]; }

  void SetRun(const RunNumbers& run) {
    run_ = run;
    context_.run = reinterpret_cast<const RunNumbers*>(Upload(std::vector<RunNumbers>{run}));
  }

  IndexFault Fault() {
    IndexFault fault;
    std::memcpy(&fault, Download(context_.fault, sizeof(fault)).data(), sizeof(fault));
    return fault;
  }

  const RunNumbers& run() const { return run_; }
  const RowLayout& layout() const { return layout_; }
  const OperatorContext& context() const { return context_; }
  const Stream& stream() const { return stream_; }

  std::byte* Allocate(int64_t bytes) {
    // Kept to the byte, so that memcheck sees what is read beyond.
    buffers_.emplace_back(static_cast<size_t>(bytes), "test");
    return buffers_.back().data();
  }
  template <typename T>
  std::byte* Upload(const std::vector<T>& data) {
    const size_t bytes = data.size() * sizeof(T);
    std::byte* at = Allocate(static_cast<int64_t>(bytes));
    if (bytes > 0) TL_CUDA_CHECK(cudaMemcpy(at, data.data(), bytes, cudaMemcpyHostToDevice));
    return at;
  }
  std::vector<std::byte> Download(const void* data, int64_t bytes) {
    stream_.Synchronize();
    std::vector<std::byte> host(static_cast<size_t>(bytes));
    if (bytes > 0) TL_CUDA_CHECK(cudaMemcpy(host.data(), data, host.size(), cudaMemcpyDefault));
    return host;
  }

  int64_t RowsOf(Domain domain) const {
    if (domain == Domain::kStatic) return 1;
    return domain == Domain::kBatch ? layout_.batch() : layout_.steps() * layout_.batch();
  }

  // Random numbers, with columns around that belong to somebody else.
  Value Make(Domain domain, int64_t width, DType dtype, double low = -2, double high = 2) {
    std::uniform_real_distribution<double> numbers(low, high);
    return Fill(domain, width, dtype, [&] { return numbers(random_); });
  }
  Value MakeIndex(Domain domain, int64_t entries) {
    return Fill(domain, 1, DType::kInt32, [&] { return static_cast<double>(Int(0, entries - 1)); });
  }
  // Makes a step value one that is read with a delay.
  void Delay(Value* x, int64_t delay, Direction direction, bool adjoint) {
    RowOperand& rows = x->operand.rows;
    rows.delay = static_cast<int>(delay);
    rows.direction = static_cast<signed char>(direction);
    rows.adjoint = adjoint;
    if (delay == 0 || adjoint || rows.dtype == static_cast<signed char>(DType::kInt32)) return;
    if (Int(0, 2) == 0) return;
    x->init_domain = OneOf({Domain::kStatic, Domain::kBatch});
    const auto dtype = static_cast<DType>(rows.dtype);
    const Value init = Make(x->init_domain, delay * x->width, dtype);
    x->init = init.host;
    rows.init = init.operand.rows.data;
    rows.init_row_bytes = x->init_domain == Domain::kBatch ? init.operand.rows.row_bytes : 0;
    rows.init_step_bytes = x->width * static_cast<int64_t>(SizeOf(dtype));
  }
  void DelayAnyhow(Value* x) {
    Delay(x, Int(0, 3), OneOf({Direction::kForward, Direction::kReverse}), Int(0, 1) == 0);
  }

  // What a row operator's reader at a valid step finds.
  double At(const Value& x, int64_t t, int64_t b, int64_t i) const {
    const RowOperand& rows = x.operand.rows;
    if (rows.delay == 0) return Element(x, t, b, i);
    const auto direction = static_cast<Direction>(rows.direction);
    const Walk walk = layout_.WalkOf(b, rows.adjoint ? Opposite(direction) : direction);
    const int64_t u = walk.Position(t);
    return AtLink(x, rows.adjoint ? walk.ReadAhead(u, rows.delay) : walk.Read(u, rows.delay), b, i);
  }
  double AtLink(const Value& x, const Link& link, int64_t b, int64_t i) const {
    if (link.kind == Link::Kind::kStep) return Element(x, link.index, b, i);
    if (link.kind == Link::Kind::kNothing || x.init.empty()) return 0;
    const int64_t row = x.init_domain == Domain::kBatch ? b : 0;
    return x.init[static_cast<size_t>((row * x.operand.rows.delay + link.index) * x.width + i)];
  }
  double Element(const Value& x, int64_t t, int64_t b, int64_t i) const {
    int64_t row = 0;
    if (x.domain == Domain::kBatch) row = b;
    if (x.domain == Domain::kStep) row = t * layout_.batch() + b;
    return x.host[static_cast<size_t>(row * x.width + i)];
  }
  bool Valid(int64_t t, int64_t b) const { return t < layout_.length(b); }

  static bool Near(double got, const Wanted& want, DType dtype) {
    const double bound = kSumTolerance * std::max(want.magnitude, std::abs(want.value)) +
                         Rounding(dtype) * std::abs(want.value) +
                         (dtype == DType::kFloat16 ? 0x1p-24 : 0);
    return std::abs(got - want.value) <= bound;
  }

  // Enqueues twice, on memory that held NaN. Expects the same bits.
  template <typename Function>
  std::vector<std::byte> RunTwice(void* y, int64_t bytes, Function enqueue) {
    std::vector<std::byte> first;
    for (int run = 0; run < 2; ++run) {
      if (bytes > 0) {
        TL_CUDA_CHECK(cudaMemsetAsync(y, 0xff, static_cast<size_t>(bytes), stream_.get()));
      }
      enqueue();
      std::vector<std::byte> result = Download(y, bytes);
      if (run == 1) {
        EXPECT_TRUE(result == first) << "two runs differ";
      }
      first = std::move(result);
    }
    return first;
  }
  // y: [count], without gaps.
  template <typename Function, typename Want>
  void CheckArray(int64_t count, DType dtype, Function enqueue, Want want) {
    const auto size = static_cast<int64_t>(SizeOf(dtype));
    std::byte* y = Allocate(count * size);
    const std::vector<std::byte> got = RunTwice(y, count * size, [&] { enqueue(y); });
    for (int64_t i = 0; i < count; ++i) {
      const Wanted wanted = want(i);
      const double element = Decode(got.data() + i * size, dtype);
      if (Near(element, wanted, dtype)) continue;
      FAIL() << "element " << i << ": got " << element << ", wants " << wanted.value;
    }
  }

  // Runs into memory that held NaN, twice: all elements are as wanted, zeros in padding, nothing
  // around them is touched, and the bits are the same.
  void Check(OperatorCall call, const RowRange& range, Domain domain, DType dtype,
             const std::function<void(const OperatorCall&)>& enqueue, const WantElement& want) {
    const int64_t size = static_cast<int64_t>(SizeOf(dtype));
    const bool steps = domain == Domain::kStep;
    const int64_t period = steps ? std::max<int64_t>(range.steps, 1) : 1;
    const int64_t rows = steps ? period * layout_.batch() : RowsOf(domain);
    const int64_t before = OneOf<int64_t>({0, 0, 1, 4});
    const int64_t pitch = before + call.width + OneOf<int64_t>({0, 0, 3, 4});
    const int64_t bytes = rows * pitch * size;
    std::byte* y = Allocate(bytes);
    call.output.data = reinterpret_cast<char*>(y) + before * size;
    call.output.row_bytes = pitch * size;
    call.output.period = period;
    call.output.kind = steps                       ? RowKind::kStep
                       : domain == Domain::kStatic ? RowKind::kShared
                                                   : RowKind::kBatch;
    call.output.dtype = static_cast<signed char>(dtype);
    const std::vector<std::byte> got = RunTwice(y, bytes, [&] { enqueue(call); });
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t b = domain == Domain::kStatic ? 0 : r % layout_.batch();
      int64_t t = 0;
      if (steps) {
        const int64_t place = r / layout_.batch();
        t = range.time_begin + (place - range.time_begin % period + period) % period;
        if (t >= range.time_begin + range.steps) continue;
      }
      for (int64_t c = 0; c < pitch; ++c) {
        const std::byte* at = got.data() + (r * pitch + c) * size;
        const int64_t i = c - before;
        if (i < 0 || i >= call.width) {
          for (int64_t k = 0; k < size; ++k) ASSERT_EQ(at[k], std::byte{0xff}) << "touched";
          continue;
        }
        const bool valid = !steps || Valid(t, b);
        const Wanted wanted = valid ? want(t, b, i) : Wanted{};
        if (Near(Decode(at, dtype), wanted, dtype)) continue;
        FAIL() << "[" << Traits(call.op).name << "] " << Name(dtype) << " t " << t << " b " << b
               << " i " << i << ": got " << Decode(at, dtype) << ", wants " << wanted.value;
      }
    }
  }
  void CheckRows(const OperatorCall& call, const RowRange& range, DType dtype,
                 const WantElement& want) {
    Check(
        call, range, call.domain, dtype,
        [&](const OperatorCall& c) { RunRowOperator(c, range, context_); }, want);
  }
  void CheckSequences(const OperatorCall& call, Domain domain, DType dtype,
                      const WantElement& want) {
    Check(
        call, {0, layout_.steps(), true}, domain, dtype,
        [&](const OperatorCall& c) { RunSequenceOperator(c, context_); }, want);
  }

  // A part of the steps, or all.
  RowRange AnyRange(Domain domain) {
    if (domain != Domain::kStep) return {};
    const int64_t begin = Int(0, 3) == 0 ? Int(0, layout_.steps()) : 0;
    const int64_t steps =
        Int(0, 3) == 0 ? Int(0, layout_.steps() - begin) : layout_.steps() - begin;
    return {begin, steps, true};
  }

 private:
  template <typename Draw>
  Value Fill(Domain domain, int64_t width, DType dtype, Draw draw) {
    const int64_t size = static_cast<int64_t>(SizeOf(dtype));
    const int64_t rows = RowsOf(domain);
    const int64_t before = OneOf<int64_t>({0, 0, 1, 4});
    const int64_t pitch = before + width + OneOf<int64_t>({0, 0, 3, 4});
    std::vector<std::byte> bytes(static_cast<size_t>(rows * pitch * size), std::byte{0xff});
    Value x{.domain = domain, .width = width, .host = {}, .operand = {}, .init = {}};
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t i = 0; i < width; ++i) {
        std::byte* at = bytes.data() + (r * pitch + before + i) * size;
        Encode(draw(), dtype, at);
        x.host.push_back(Decode(at, dtype));
      }
    }
    x.operand.width = width;
    RowOperand& operand = x.operand.rows;
    operand.data = reinterpret_cast<const char*>(Upload(bytes)) + before * size;
    if (bytes.empty()) operand.data = nullptr;
    operand.row_bytes = pitch * size;
    operand.period = std::max<int64_t>(layout_.steps(), 1);
    operand.kind = domain == Domain::kStatic  ? RowKind::kShared
                   : domain == Domain::kBatch ? RowKind::kBatch
                                              : RowKind::kStep;
    operand.dtype = static_cast<signed char>(dtype);
    return x;
  }

  std::mt19937 random_;
  Stream stream_;
  std::vector<DeviceBuffer> buffers_;
  RowLayout layout_;
  OperatorContext context_;
  RunNumbers run_;
};

class OperatorsCuda : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      UseDevice(0);
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
  }

  // check(scene, n) at random shapes.
  template <typename Function>
  static void AtRandomShapes(Function check) {
    constexpr int kDraws = 48;
    std::mt19937 random(7);
    const auto pick = [&](std::initializer_list<int64_t> choices) {
      return choices.begin()[std::uniform_int_distribution<size_t>(0, choices.size() - 1)(random)];
    };
    for (uint32_t draw = 0; draw < kDraws; ++draw) {
      const int64_t steps = pick({0, 1, 2, 17});
      const int64_t batch = pick({0, 1, 2, 17});
      const int64_t n = pick({0, 1, 2, 17, 64, 1100});
      const Scene::Options options{pick({0, 1}) == 1, pick({0, 1}) == 1};
      SCOPED_TRACE(fmt::format("draw {}: T {} B {} n {} lengths {} resets {}", draw, steps, batch,
                               n, options.lengths, options.resets));
      Scene scene(draw, steps, batch, options);
      check(scene, n);
      if (HasFailure()) return;
    }
  }

  // Many rows, and many steps.
  template <typename Function>
  static void AtLargeShapes(Function check) {
    struct Shape {
      int64_t steps, batch, n;
    };
    uint32_t seed = 100;
    for (const Shape& shape : {Shape{65536, 2, 1}, Shape{3, 70000, 3}, Shape{257, 256, 4}}) {
      SCOPED_TRACE(fmt::format("T {} B {} n {}", shape.steps, shape.batch, shape.n));
      Scene scene(seed++, shape.steps, shape.batch, {true, true});
      check(scene, shape.n);
      if (HasFailure()) return;
    }
  }
  template <typename Function>
  static void Everywhere(Function check) {
    AtRandomShapes(check);
    if (!HasFailure()) AtLargeShapes(check);
  }
};

OperatorCall Call(Op op, Domain domain, int64_t width, std::vector<WideOperand> inputs = {}) {
  OperatorCall call;
  call.op = op;
  call.domain = domain;
  call.width = width;
  call.inputs = std::move(inputs);
  return call;
}

Domain AnyDomain(Scene& scene) {
  return scene.OneOf({Domain::kStep, Domain::kStep, Domain::kBatch});
}

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
                      return Wanted{draw < 0.7f ? 2.0 : 0.0};
                    });
  });
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
