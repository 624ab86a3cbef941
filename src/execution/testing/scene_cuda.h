#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <random>

#include "backend/cuda/check_cuda.h"
#include "backend/cuda/runtime_cuda.h"
#include "execution/operators_cuda.h"
#include "execution/testing/numbers_cuda.h"
#include "plan/row_layout.h"

// Random values on sequences, on the host and on a device; what operators make of them is compared
// with plain double loops over graph/walk.
namespace turbolstm::cuda {

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

}  // namespace turbolstm::cuda
