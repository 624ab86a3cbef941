// Kernels on a device against graph/walk and the reference in double.

#include "ops/pointwise/kernel_cuda.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "backend/cuda/check_cuda.h"
#include "backend/cuda/runtime_cuda.h"
#include "backend/cuda/testing/gpu.h"
#include "base/error.h"
#include "ops/pointwise/emitter_cuda.h"
#include "ops/pointwise/testing/device_rows_model_cuda.h"
#include "ops/pointwise/testing/typed_samples_cuda.h"

namespace turbolstm::cuda {
namespace {

constexpr double kBFloat16Rounding = 0x1p-8;
constexpr double kFloat16Rounding = 0x1p-11;
constexpr double kFloat32Rounding = 0x1p-24;
constexpr double kUnitsInLastPlace = 8;  // of fp32, of one operator

double RoundingOf(DType dtype) {
  if (dtype == DType::kFloat32) return kFloat32Rounding;
  return dtype == DType::kBFloat16 ? kBFloat16Rounding : kFloat16Rounding;
}

class KernelCudaTest : public testing::Test {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_GPU();
    UseDevice(0);
  }
};

PointwiseKernel CompileOne(const TypedProgram& typed) {
  return CompilePointwise(std::span(&typed, 1))[0];
}

DeviceBuffer Upload(const void* from, size_t bytes) {
  DeviceBuffer buffer(bytes, "a test");
  if (bytes > 0) TL_CUDA_CHECK(cudaMemcpy(buffer.data(), from, bytes, cudaMemcpyHostToDevice));
  return buffer;
}

// Runs a kernel on copies of the images; what it leaves there.
std::vector<RowImage> RunOnDevice(const ModelRun& model, const PointwiseKernel& kernel) {
  std::vector<DeviceBuffer> images;
  for (const RowImage& image : model.images) {
    images.push_back(Upload(image.bytes().data(), image.bytes().size()));
  }
  const DeviceBuffer lengths = Upload(model.lengths.data(), model.lengths.size() * sizeof(int32_t));
  const DeviceBuffer resets = Upload(model.resets.data(), model.resets.size());
  PointwiseRun run;
  run.sequences = {.steps = model.steps,
                   .batch = model.batch,
                   .lengths = reinterpret_cast<const int*>(lengths.data()),
                   .numbers = nullptr,
                   .resets = reinterpret_cast<const unsigned char*>(resets.data())};
  run.range = model.range;
  run.reverse = model.reverse;
  run.n = model.n;
  const auto address = [&](int image) {
    return image < 0 ? nullptr : reinterpret_cast<char*>(images[static_cast<size_t>(image)].data());
  };
  const auto row_bytes = [&](int image) {
    return image < 0 ? 0 : model.images[static_cast<size_t>(image)].row_bytes();
  };
  std::vector<RowOperand> inputs;
  for (size_t i = 0; i < model.inputs.size(); ++i) {
    const ModelOperand& x = model.inputs[i];
    inputs.push_back({.data = address(x.image),
                      .row_bytes = row_bytes(x.image),
                      .period = x.period,
                      .init = address(x.init),
                      .init_row_bytes = x.init_rows * row_bytes(x.init),
                      .init_step_bytes = x.init_step_rows * row_bytes(x.init),
                      .delay = x.delay,
                      .kind = x.kind,
                      .direction = static_cast<signed char>(x.direction),
                      .adjoint = x.adjoint,
                      .dtype = static_cast<signed char>(model.typed.inputs[i])});
  }
  std::vector<RowOutput> outputs;
  for (size_t i = 0; i < model.outputs.size(); ++i) {
    const ModelOutput& y = model.outputs[i];
    outputs.push_back({.data = address(y.image),
                       .row_bytes = row_bytes(y.image),
                       .period = y.period,
                       .kind = y.kind,
                       .dtype = static_cast<signed char>(model.typed.outputs[i])});
  }
  run.inputs = inputs;
  run.outputs = outputs;
  const Stream stream;
  TL_CUDA_CHECK(cudaDeviceSynchronize());  // copies of pageable memory
  kernel.Launch(run, stream.get());
  stream.Synchronize();
  std::vector<RowImage> result = model.images;
  for (size_t i = 0; i < result.size(); ++i) {
    std::vector<unsigned char>& bytes = result[i].bytes();
    if (bytes.empty()) continue;
    TL_CUDA_CHECK(cudaMemcpy(bytes.data(), images[i].data(), bytes.size(), cudaMemcpyDeviceToHost));
  }
  return result;
}

bool Close(float got, float want, double absolute, double relative) {
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got);
  if (std::isinf(want) || std::isinf(got)) return got == want;
  return std::abs(double{got} - want) <= absolute + relative * std::abs(want);
}

// Elements that the run writes are close to the model's; all other bytes are as before.
void ExpectLikeModel(const ModelRun& before, const std::vector<RowImage>& got,
                     const std::vector<double>& tolerances, const std::string& where) {
  ModelRun model = before;
  model.Run();
  std::vector<RowImage> rest = got;
  for (size_t i = 0; i < model.outputs.size(); ++i) {
    const auto image = static_cast<size_t>(model.outputs[i].image);
    const DType dtype = got[image].dtype();
    int wrong = 0;
    for (int64_t s = 0; s < model.range.steps; ++s) {
      for (int64_t b = 0; b < model.batch; ++b) {
        const int64_t t = model.range.time_begin + s;
        const int64_t row = model.OutputRow(model.outputs[i], t, b);
        const bool padding = model.IsPadding(t, b);
        for (int64_t j = 0; j < model.n; ++j) {
          const float want = model.images[image].At(row, j);
          const float have = got[image].At(row, j);
          const double relative = 2 * RoundingOf(dtype) + kUnitsInLastPlace * kFloat32Rounding;
          if (!(padding ? have == 0 : Close(have, want, tolerances[i], relative)) && ++wrong <= 3) {
            ADD_FAILURE() << where << ": output " << i << " at t=" << t << " b=" << b << " j=" << j
                          << " is " << have << ", wants " << want;
          }
          rest[image].Set(row, j, 0.0f);
        }
      }
    }
  }
  for (const ModelOutput& output : model.outputs) {
    for (int64_t s = 0; s < model.range.steps; ++s) {
      for (int64_t b = 0; b < model.batch; ++b) {
        for (int64_t j = 0; j < model.n; ++j) {
          model.images[static_cast<size_t>(output.image)].Set(
              model.OutputRow(output, model.range.time_begin + s, b), j, 0.0f);
        }
      }
    }
  }
  for (size_t i = 0; i < rest.size(); ++i) {
    EXPECT_TRUE(rest[i].bytes() == model.images[i].bytes())
        << where << ": bytes beside the elements of image " << i << " changed";
  }
}

class Drawer {
 public:
  explicit Drawer(uint64_t seed) : random_(seed) {}

  int Int(int low, int high) { return std::uniform_int_distribution(low, high)(random_); }
  bool Coin() { return Int(0, 1) == 1; }
  template <typename T>
  T Of(std::initializer_list<T> values) {
    return values.begin()[Int(0, static_cast<int>(values.size()) - 1)];
  }

  int Image(ModelRun* run, DType dtype, int64_t rows, int64_t width) {
    RowImage image(dtype, rows, width, gaps_ ? Int(0, 3) : 0);
    std::uniform_real_distribution<float> uniform(-2.0f, 2.0f);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t j = 0; j < width; ++j) image.Set(r, j, uniform(random_));
    }
    run->images.push_back(std::move(image));
    return static_cast<int>(run->images.size()) - 1;
  }

  // Lengths, resets, a range, and rows of all kinds.
  ModelRun Run(const TypedProgram& typed) {
    ModelRun run;
    run.typed = typed;
    gaps_ = Coin();
    run.steps = Of({0, 1, 2, 3, 17});
    run.batch = Of({0, 1, 2, 5, 17, 33});
    run.n = Of({0, 1, 2, 4, 17, 64, 300});
    if (Coin()) {
      for (int64_t b = 0; b < run.batch; ++b) {
        run.lengths.push_back(Int(0, static_cast<int>(run.steps)));
      }
      std::sort(run.lengths.rbegin(), run.lengths.rend());
    }
    if (Int(0, 3) == 0) {
      for (int64_t i = 0; i < run.steps * run.batch; ++i) run.resets.push_back(Int(0, 4) == 0);
    }
    const int64_t begin = Int(0, static_cast<int>(run.steps));
    const int64_t count = Coin() ? run.steps - begin : std::min<int64_t>(1, run.steps - begin);
    run.range = {begin, count, !run.lengths.empty() || Coin()};
    run.reverse = Coin();
    for (size_t i = 0; i < typed.inputs.size(); ++i) run.inputs.push_back(Input(&run, i));
    for (size_t i = 0; i < typed.outputs.size(); ++i) {
      ModelOutput output;
      output.period = Coin() ? std::max<int64_t>(run.steps, 1) : std::max<int64_t>(count, 1);
      // Rows of several steps would be written by several threads.
      if (count == 1 && Int(0, 3) == 0) output.kind = RowKind::kBatch;
      output.image = Image(&run, typed.outputs[i], output.period * run.batch, run.n);
      run.outputs.push_back(output);
    }
    return run;
  }

 private:
  ModelOperand Input(ModelRun* run, size_t i) {
    const InputKind kind = run->typed.program.inputs[i];
    const DType dtype = run->typed.inputs[i];
    const bool one = kind == InputKind::kColumn || kind == InputKind::kScalar;
    const int64_t width = one ? 1 : run->n;
    ModelOperand x;
    if (kind == InputKind::kRowVector || kind == InputKind::kScalar) {
      x.kind = RowKind::kShared;
      x.image = Image(run, dtype, 1, width);
      return x;
    }
    x.kind = Of({RowKind::kStep, RowKind::kStep, RowKind::kBatch, RowKind::kShared});
    x.period = std::max<int64_t>(1, Coin() ? run->steps : Int(1, 3));
    const int64_t rows = x.kind == RowKind::kShared  ? 1
                         : x.kind == RowKind::kBatch ? run->batch
                                                     : x.period * run->batch;
    if (Int(0, 7) > 0) x.image = Image(run, dtype, rows, width);
    x.delay = Of({0, 0, 1, 2});
    x.direction = Of({1, -1});
    x.adjoint = Coin();
    if (Coin()) {
      x.init_rows = Of({0, 1, x.delay});
      x.init_step_rows = Of({0, 1});
      x.init = Image(run, dtype, std::max(1, x.delay) * (run->batch + 2), width);
    }
    return x;
  }

  std::mt19937_64 random_;
  bool gaps_ = false;
};

TEST_F(KernelCudaTest, RandomProgramsOnRandomRows) {
  std::vector<SampleProgram> samples;
  std::vector<TypedProgram> programs;
  for (uint64_t seed = 100; seed < 160; ++seed) {
    samples.push_back(RandomPointwiseProgram(seed));
    programs.push_back(DealTypes(samples.back().program, seed, seed % 4 == 3));
    if (seed % 2 == 0) {  // all in fp32, where tolerances are narrow
      for (DType& dtype : programs.back().inputs) dtype = DType::kFloat32;
      for (DType& dtype : programs.back().outputs) dtype = DType::kFloat32;
    }
  }
  const std::vector<PointwiseKernel> kernels = CompilePointwise(programs);
  for (size_t i = 0; i < programs.size(); ++i) {
    for (uint64_t draw = 0; draw < 40; ++draw) {
      const ModelRun run = Drawer(1000 * i + draw).Run(programs[i]);
      const std::string where =
          fmt::format("program {} draw {} (T={} B={} n={})", i, draw, run.steps, run.batch, run.n);
      const std::vector<RowImage> got = RunOnDevice(run, kernels[i]);
      ExpectLikeModel(run, got, samples[i].tolerances, where);
      const std::vector<RowImage> again = RunOnDevice(run, kernels[i]);
      for (size_t k = 0; k < got.size(); ++k) {
        EXPECT_TRUE(got[k].bytes() == again[k].bytes()) << where << ": other bits the second time";
      }
      if (HasFailure()) return;
    }
  }
}

// Every operator on every pair of numbers that are hard in some way.
TEST_F(KernelCudaTest, OperatorsOnSpecialValues) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<float> specials{0.0f,    -0.0f,  1.0f,    -1.0f,     0.5f,       -3.7f,
                                    1e-30f,  -1e-6f, 12.0f,   -12.0f,    87.0f,      -87.0f,
                                    89.0f,   -89.0f, 105.0f,  -105.0f,   1e5f,       -1e5f,
                                    3e38f,   -3e38f, 1e-39f,  kInfinity, -kInfinity, std::nanf(""),
                                    0.1234f, 7e-8f,  1.9999f, 65504.0f,  -2.5e-3f};
  const auto count = static_cast<int64_t>(specials.size());
  std::vector<TypedProgram> programs;
  for (int op = 0; op < kPointwiseOpCount; ++op) {
    const auto operands = OperandCount(static_cast<PointwiseOp>(op));
    PointwiseInstruction instruction{static_cast<PointwiseOp>(op)};
    if (operands > 1) instruction.b = 1;
    if (operands > 2) instruction.c = 2;
    const PointwiseProgram program{
        std::vector<InputKind>(3, InputKind::kElement), {}, {instruction}, {3}};
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
      programs.push_back({program, {3, DType::kFloat32}, {dtype}});
      programs.back().inputs.assign(3, dtype);
    }
  }
  const std::vector<PointwiseKernel> kernels = CompilePointwise(programs);
  for (size_t k = 0; k < programs.size(); ++k) {
    const DType dtype = programs[k].inputs[0];
    ModelRun run{.typed = programs[k], .steps = 1, .batch = count, .n = count};
    run.range = {0, 1, false};
    for (int i = 0; i < 4; ++i) run.images.emplace_back(dtype, count, count, 0);
    for (int64_t r = 0; r < count; ++r) {
      for (int64_t j = 0; j < count; ++j) {
        run.images[0].Set(r, j, specials[static_cast<size_t>(j)]);
        run.images[1].Set(r, j, specials[static_cast<size_t>(r)]);
        run.images[2].Set(r, j, specials[static_cast<size_t>((r + j) % count)]);
      }
    }
    for (int i = 0; i < 3; ++i) run.inputs.push_back({.image = i});
    run.outputs = {{.image = 3}};
    // Results below the normal range may be 0.
    const double tiny = dtype == DType::kFloat16 ? 0x1p-24 : std::numeric_limits<float>::min();
    ExpectLikeModel(run, RunOnDevice(run, kernels[k]), {tiny}, KernelKey(programs[k]));
  }
}

// What a thread wrote at earlier steps it reads at later ones: h = 0.5 h' + sin(x).
PointwiseProgram Recurrence() {
  using enum PointwiseOp;
  return {{InputKind::kElement, InputKind::kElement},
          {0.5},
          {{kMul, 1, 2}, {kSin, 0}, {kAdd, 3, 4}},
          {5}};
}

TEST_F(KernelCudaTest, TimeLoopReadsWhatItWrote) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    const TypedProgram typed{Recurrence(), {dtype, dtype}, {dtype}, true};
    const PointwiseKernel kernel = CompileOne(typed);
    for (uint64_t draw = 0; draw < 64; ++draw) {
      Drawer drawer(draw);
      const bool adjoint = draw % 2 == 1;
      const bool reverse = draw % 4 >= 2;
      ModelRun run{.typed = typed, .steps = 19, .batch = 13, .n = 37};
      run.range = {0, run.steps, true};
      if (draw % 5 == 4) run.range = {4, 11, true};
      for (int64_t b = 0; b < run.batch; ++b) run.lengths.push_back(static_cast<int>(19 - b));
      if (draw % 8 < 4) run.lengths.clear();
      if (draw % 3 == 0) {
        for (int64_t i = 0; i < run.steps * run.batch; ++i) {
          run.resets.push_back(drawer.Int(0, 5) == 0);
        }
      }
      // A ring that just holds what is read.
      const int delay = drawer.Of({1, 1, 2, 3});
      const int64_t period = drawer.Coin() ? run.steps : delay + 1;
      const int x = drawer.Image(&run, dtype, run.steps * run.batch, run.n);
      const int h = drawer.Image(&run, dtype, period * run.batch, run.n);
      const int init = drawer.Image(&run, dtype, delay * run.batch, run.n);
      run.reverse = reverse;
      const int direction = reverse ? -1 : 1;
      run.inputs = {{.image = x, .period = run.steps},
                    {.image = h,
                     .init = drawer.Coin() ? init : -1,
                     .init_rows = delay,
                     .init_step_rows = 1,
                     .period = period,
                     .delay = delay,
                     .direction = direction,
                     .adjoint = adjoint}};
      run.outputs = {{.image = h, .period = period}};
      ModelRun model = run;
      model.Run();
      const std::vector<RowImage> got = RunOnDevice(run, kernel);
      for (int64_t row = 0; row < period * run.batch; ++row) {
        for (int64_t j = 0; j < run.n; ++j) {
          ASSERT_TRUE(Close(got[static_cast<size_t>(h)].At(row, j),
                            model.images[static_cast<size_t>(h)].At(row, j), 1e-6,
                            4 * RoundingOf(dtype)))
              << "draw " << draw << " row " << row << " j " << j;
        }
      }
    }
  }
}

// h' = sigmoid(f) h + x, 1 - h' and sin(h') beside it, where f lay.
TypedProgram LinearRecurrence(DType dtype) {
  using enum PointwiseOp;
  const PointwiseProgram program{
      std::vector<InputKind>(3, InputKind::kElement),
      {},
      {{kSigmoid, 0}, {kMul, 3, 2}, {kAdd, 4, 1}, {kOneMinus, 5}, {kSin, 5}},
      {5, 6, 7}};
  return {program, {dtype, dtype, DType::kFloat32}, {DType::kFloat32, dtype, dtype}, true, 2, 0};
}

// The prefix adds up in another order than the model, in fp32: some hundred terms.
TEST_F(KernelCudaTest, LongLinearLoopsRunAsPrefix) {
  constexpr double kPrefixTolerance = 2e-5;
  const uint64_t draws = std::getenv("TURBOLSTM_SMALL_TESTS") ? 6 : 48;  // for tools that are slow
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    const TypedProgram typed = LinearRecurrence(dtype);
    const PointwiseKernel kernel = CompileOne(typed);
    for (uint64_t draw = 0; draw < draws; ++draw) {
      Drawer drawer(draw);
      const int64_t steps = drawer.Of({64, 65, 200, 777});
      const bool adjoint = draw % 2 == 1;
      const int delay = drawer.Of({1, 1, 2, 3});
      const int64_t batch = drawer.Of({1, 5});
      ModelRun run{.typed = typed, .steps = delay * steps, .batch = batch, .n = drawer.Of({1, 37})};
      run.range = {0, run.steps, true};
      run.reverse = draw % 4 >= 2;
      for (int64_t b = 0; b < run.batch; ++b) {
        run.lengths.push_back(static_cast<int>(run.steps - b * run.steps / 5));
      }
      if (draw % 8 < 4) run.lengths.clear();
      if (draw % 3 == 0) {
        for (int64_t i = 0; i < run.steps * run.batch; ++i) {
          run.resets.push_back(drawer.Int(0, 40) == 0);
        }
      }
      const int64_t period = drawer.Coin() ? run.steps : delay + 1;
      const int64_t rows = run.steps * run.batch;
      const int f = drawer.Image(&run, dtype, rows, run.n);
      const int x = drawer.Image(&run, dtype, rows, run.n);
      const int h = drawer.Image(&run, DType::kFloat32, period * run.batch, run.n);
      const int y = drawer.Image(&run, dtype, rows, run.n);
      const int init = drawer.Image(&run, DType::kFloat32, delay * run.batch, run.n);
      run.inputs = {{.image = f, .period = run.steps},
                    {.image = x, .period = run.steps},
                    {.image = h,
                     .init = drawer.Coin() ? init : -1,
                     .init_rows = delay,
                     .init_step_rows = 1,
                     .period = period,
                     .delay = delay,
                     .direction = run.reverse ? -1 : 1,
                     .adjoint = adjoint}};
      run.outputs = {{.image = h, .period = period},
                     {.image = y, .period = run.steps},
                     {.image = f, .period = run.steps}};
      ModelRun model = run;
      model.Run();
      const std::vector<RowImage> got = RunOnDevice(run, kernel);
      const std::vector<RowImage> again = RunOnDevice(run, kernel);
      for (const int image : {h, y, f}) {
        EXPECT_TRUE(got[static_cast<size_t>(image)].bytes() ==
                    again[static_cast<size_t>(image)].bytes())
            << "draw " << draw << ": other bits the second time";
        const RowImage& want = model.images[static_cast<size_t>(image)];
        for (int64_t row = 0; row < want.rows(); ++row) {
          for (int64_t j = 0; j < run.n; ++j) {
            ASSERT_TRUE(Close(got[static_cast<size_t>(image)].At(row, j), want.At(row, j),
                              kPrefixTolerance, kPrefixTolerance + 2 * RoundingOf(want.dtype())))
                << "draw " << draw << " image " << image << " row " << row << " j " << j << ": "
                << got[static_cast<size_t>(image)].At(row, j) << " for " << want.At(row, j);
          }
        }
      }
    }
  }
}

// y = x' + 1 with x' one step before, on shapes that go beyond a grid's dimensions.
TEST_F(KernelCudaTest, ManyRows) {
  const PointwiseProgram program{{InputKind::kElement}, {1}, {{PointwiseOp::kAdd, 0, 1}}, {2}};
  const TypedProgram typed{program, {DType::kFloat32}, {DType::kBFloat16}};
  const PointwiseKernel kernel = CompileOne(typed);
  struct Case {
    int64_t steps, batch, n;
    int delay;
    bool lengths;
  };
  for (const Case& c :
       {Case{1, 70000, 3, 0, false}, Case{70000, 1, 2, 0, true}, Case{70000, 1, 2, 1, true},
        Case{2, 70000, 1, 1, true}, Case{300, 256, 4, 0, true}, Case{1, 70000, 130, 0, true}}) {
    ModelRun run{.typed = typed, .steps = c.steps, .batch = c.batch, .n = c.n};
    run.range = {0, c.steps, true};
    if (c.lengths) {
      for (int64_t b = 0; b < c.batch; ++b) {
        run.lengths.push_back(static_cast<int>(c.steps - b % 2));
      }
    }
    Drawer drawer(7);
    const int x = drawer.Image(&run, DType::kFloat32, c.steps * c.batch, c.n);
    const int y = drawer.Image(&run, DType::kBFloat16, c.steps * c.batch, c.n);
    run.inputs = {{.image = x, .period = c.steps, .delay = c.delay}};
    run.outputs = {{.image = y, .period = c.steps}};
    ExpectLikeModel(run, RunOnDevice(run, kernel), {0.0},
                    fmt::format("T={} B={} n={} delay {}", c.steps, c.batch, c.n, c.delay));
  }
}

// More than 2^31 elements and 2^32 bytes; only some rows are looked at.
TEST_F(KernelCudaTest, OffsetsOf64Bits) {
  const PointwiseProgram negate{{InputKind::kElement}, {}, {{PointwiseOp::kNeg, 0}}, {1}};
  const PointwiseKernel kernel = CompileOne({negate, {DType::kBFloat16}, {DType::kBFloat16}});
  const int64_t rows = 66000, n = 32768 + 4;
  const size_t bytes = static_cast<size_t>(rows * n * 2);
  size_t free = 0, total = 0;
  TL_CUDA_CHECK(cudaMemGetInfo(&free, &total));
  if (free < 2 * bytes + (size_t{1} << 30)) GTEST_SKIP() << "too little device memory is free";
  const DeviceBuffer x(bytes, "a test"), y(bytes, "a test");
  TL_CUDA_CHECK(cudaMemset(x.data(), 0x3f, bytes));  // 0.7461
  TL_CUDA_CHECK(cudaMemset(y.data(), 0, bytes));
  TL_CUDA_CHECK(cudaDeviceSynchronize());
  const auto dtype = static_cast<signed char>(DType::kBFloat16);
  const RowOperand in{.data = reinterpret_cast<char*>(x.data()),
                      .row_bytes = n * 2,
                      .kind = RowKind::kStep,
                      .dtype = dtype};
  const RowOutput out{
      .data = reinterpret_cast<char*>(y.data()), .row_bytes = n * 2, .dtype = dtype};
  PointwiseRun run{.sequences = {.steps = 1, .batch = rows}, .n = n};
  run.inputs = std::span(&in, 1);
  run.outputs = std::span(&out, 1);
  const Stream stream;
  kernel.Launch(run, stream.get());
  stream.Synchronize();
  std::vector<uint16_t> row(static_cast<size_t>(n));
  for (const int64_t r : {int64_t{0}, int64_t{32760}, int64_t{65534}, int64_t{65535}, rows - 1}) {
    TL_CUDA_CHECK(cudaMemcpy(row.data(), y.data() + r * n * 2, static_cast<size_t>(n * 2),
                             cudaMemcpyDeviceToHost));
    EXPECT_EQ(row, std::vector<uint16_t>(static_cast<size_t>(n), 0xbf3f)) << r;
  }
}

// One element a thread, four, and rows looked up one by one.
TEST_F(KernelCudaTest, AllKernelsOfAProgramGiveTheSameBits) {
  for (const uint64_t seed : {0u, 5u, 9u, 12u}) {
    const TypedProgram typed = DealTypes(RandomPointwiseProgram(seed).program, seed);
    const PointwiseKernel kernel = CompileOne(typed);
    const int64_t rows = 512, n = 512;
    ModelRun run{.typed = typed, .steps = 2, .batch = rows, .n = n};
    run.range = {1, 1, true};
    Drawer drawer(seed);
    for (size_t i = 0; i < typed.inputs.size(); ++i) {
      const InputKind kind = typed.program.inputs[i];
      const bool shared = kind == InputKind::kRowVector || kind == InputKind::kScalar;
      const bool one = kind == InputKind::kColumn || kind == InputKind::kScalar;
      ModelOperand x{
          .image = drawer.Image(&run, typed.inputs[i], shared ? 1 : 2 * rows, one ? 1 : n),
          .kind = shared ? RowKind::kShared : RowKind::kStep,
          .period = 2,
          .delay = shared ? 0 : 1};
      run.inputs.push_back(x);
    }
    for (const DType dtype : typed.outputs) {
      run.outputs.push_back({.image = drawer.Image(&run, dtype, 2 * rows, n), .period = 2});
    }
    const std::vector<RowImage> packs = RunOnDevice(run, kernel);
    ModelRun looked_up = run;
    looked_up.resets.assign(static_cast<size_t>(2 * rows), 0);
    const std::vector<RowImage> general = RunOnDevice(looked_up, kernel);
    ModelRun small = run;
    small.batch = 64;
    for (ModelOperand& x : small.inputs)
      x.period = 1, x.kind = x.kind == RowKind::kStep ? RowKind::kBatch : x.kind;
    for (ModelOutput& y : small.outputs) y.kind = RowKind::kBatch;
    const std::vector<RowImage> single = RunOnDevice(small, kernel);
    for (const ModelOutput& output : run.outputs) {
      const auto image = static_cast<size_t>(output.image);
      EXPECT_TRUE(packs[image].bytes() == general[image].bytes()) << seed;
      for (int64_t b = 0; b < small.batch; ++b) {
        for (int64_t j = 0; j < n; ++j) {
          const DType dtype = packs[image].dtype();
          ASSERT_EQ(Encode(dtype, single[image].At(b, j)),
                    Encode(dtype, packs[image].At(rows + b, j)))
              << seed;
        }
      }
    }
  }
}

TEST_F(KernelCudaTest, AheadOfTimeKernelsGiveTheSameBits) {
  const std::vector<TypedProgram> programs = AheadOfTimeTypedSamples();
  const std::vector<SampleProgram> samples = AheadOfTimeSamples();
  // A constant more changes nothing but the key.
  std::vector<TypedProgram> twins = programs;
  for (TypedProgram& typed : twins) {
    const int32_t first = typed.program.FirstResult();
    typed.program.constants.push_back(4711);
    const auto shift = [first](int32_t& value) { value += value >= first; };
    for (PointwiseInstruction& instruction : typed.program.code) {
      shift(instruction.a);
      shift(instruction.b);
      shift(instruction.c);
    }
    for (int32_t& output : typed.program.outputs) shift(output);
  }
  RegisterSampleCudaKernels();
  const std::vector<PointwiseKernel> ahead = CompilePointwise(programs);
  const std::vector<PointwiseKernel> late = CompilePointwise(twins);
  for (size_t i = 0; i < programs.size(); ++i) {
    ASSERT_TRUE(ahead[i].AheadOfTime());
    ASSERT_FALSE(late[i].AheadOfTime());
    for (uint64_t draw = 0; draw < 10; ++draw) {
      const ModelRun run = Drawer(draw).Run(programs[i]);
      const std::vector<RowImage> a = RunOnDevice(run, ahead[i]), b = RunOnDevice(run, late[i]);
      ExpectLikeModel(run, a, samples[2 * i + 1].tolerances, fmt::format("program {}", i));
      for (size_t k = 0; k < a.size(); ++k) EXPECT_TRUE(a[k].bytes() == b[k].bytes()) << i;
    }
  }
}

// Kernels that begin before the one before them has ended see all that it wrote.
TEST_F(KernelCudaTest, KernelsFollowKernels) {
  const PointwiseProgram add{{InputKind::kElement}, {1}, {{PointwiseOp::kAdd, 0, 1}}, {2}};
  const PointwiseKernel kernel = CompileOne({add, {DType::kFloat32}, {DType::kFloat32}});
  constexpr int64_t kRows = 64, kWidth = 1024, kLaunches = 300;
  const std::vector<float> zeros(kRows * kWidth, 0.0f);
  const DeviceBuffer x = Upload(zeros.data(), zeros.size() * sizeof(float));
  const RowOperand in{
      .data = reinterpret_cast<char*>(x.data()), .row_bytes = kWidth * 4, .kind = RowKind::kStep};
  // In turns shifted by a column, so that every element comes from another thread.
  const DeviceBuffer y = Upload(zeros.data(), zeros.size() * sizeof(float));
  PointwiseRun run{.sequences = {.steps = 1, .batch = kRows}, .n = kWidth - 1};
  const Stream stream;
  TL_CUDA_CHECK(cudaDeviceSynchronize());
  const auto launch = [&] {
    for (int64_t i = 0; i < kLaunches; ++i) {
      const DeviceBuffer& from = i % 2 ? y : x;
      const DeviceBuffer& to = i % 2 ? x : y;
      RowOperand source = in;
      source.data = reinterpret_cast<char*>(from.data()) + (i % 2 ? 4 : 0);
      const RowOutput out{.data = reinterpret_cast<char*>(to.data()) + (i % 2 ? 0 : 4),
                          .row_bytes = kWidth * 4};
      run.inputs = std::span(&source, 1);
      run.outputs = std::span(&out, 1);
      run.follows_kernel = i > 0;
      kernel.Launch(run, stream.get());
    }
  };
  const RecordedGraph graph = RecordedGraph::Record(stream, launch);
  graph.Launch(stream);
  stream.Synchronize();
  std::vector<float> got(zeros.size());
  TL_CUDA_CHECK(cudaMemcpy(got.data(), x.data(), got.size() * 4, cudaMemcpyDeviceToHost));
  for (int64_t r = 0; r < kRows; ++r) {
    ASSERT_EQ(got[static_cast<size_t>(r * kWidth)], kLaunches) << r;
    ASSERT_EQ(got[static_cast<size_t>(r * kWidth + kWidth - 2)], kLaunches) << r;
  }
}

TEST_F(KernelCudaTest, ErrorsNameTheOperand) {
  const PointwiseProgram copy{{InputKind::kElement}, {}, {}, {0}};
  const PointwiseKernel kernel = CompileOne({copy, {DType::kFloat32}, {DType::kFloat32}});
  PointwiseRun run{.sequences = {.steps = 1, .batch = 1}, .n = 1};
  EXPECT_THROW(kernel.Launch(run, nullptr), Error);
  const RowOperand in{.dtype = static_cast<signed char>(DType::kBFloat16)};
  const RowOutput out;
  run.inputs = std::span(&in, 1);
  run.outputs = std::span(&out, 1);
  EXPECT_THROW(kernel.Launch(run, nullptr), Error);
  EXPECT_THROW(PointwiseKernel().Launch(run, nullptr), Error);
  run.n = 0;
  kernel.Launch(run, nullptr);
}

}  // namespace
}  // namespace turbolstm::cuda
