// An executable on an NVIDIA GPU that is used again and again, wrongly, and where memory is short:
// rows 9, 44, 45 and 49 of the list of faults reported to others.

#include <unistd.h>

#include <fstream>

#include "backend/cuda/check_cuda.h"
#include "backend/cuda/testing/filled_memory.h"
#include "base/error_test.h"
#include "execution/gpu_runs.h"
#include "plan/named_views.h"
#include "testing/dice.h"

namespace turbolstm {
namespace {

class GpuUse : public GpuTest {};

// What runs left on the device, copied aside without waiting for it.
class DeviceLog {
 public:
  DeviceLog(cuda::CudaExecutable* execution, int64_t steps, int64_t batch, int calls)
      : execution_(execution) {
    for (const NamedView& output : execution->lowered().outputs) {
      parts_.push_back({output.name, size_, ElementsOf(output, steps, batch)});
      size_ += parts_.back().elements;
    }
    values_ = cuda::DeviceBuffer(Bytes(size_ * calls), "a log of outputs");
  }

  void Note(int call) {
    for (const Part& part : parts_) {
      std::byte* const to = values_.data() + Bytes(call * size_ + part.begin);
      TL_CUDA_CHECK(cudaMemcpyAsync(to, execution_->DeviceOutput(part.name), Bytes(part.elements),
                                    cudaMemcpyDeviceToDevice, execution_->stream().get()));
    }
  }

  std::vector<float> Read(int call) const {
    execution_->Synchronize();
    std::vector<float> values(static_cast<size_t>(size_));
    TL_CUDA_CHECK(cudaMemcpy(values.data(), values_.data() + Bytes(call * size_), Bytes(size_),
                             cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  struct Part {
    std::string name;
    int64_t begin;
    int64_t elements;
  };
  static size_t Bytes(int64_t elements) { return static_cast<size_t>(elements) * sizeof(float); }

  cuda::CudaExecutable* execution_;
  std::vector<Part> parts_;
  int64_t size_ = 0;
  cuda::DeviceBuffer values_;
};

// Row 9: the host never waits for what a call makes before it begins the next.
TEST_P(GpuUse, ChangingLengthsDoNotDisturbEachOther) {
  constexpr int kKinds = 8;
  constexpr int kCalls = 200;
  constexpr int64_t kT = 16;
  constexpr int64_t kB = 6;
  const Graph graph = TrainingGraph();
  std::vector<Bindings> kinds;
  for (uint64_t k = 0; k < kKinds; ++k) {
    Bindings& kind =
        kinds.emplace_back(RandomBindings(graph, k, {.steps = kT, .batch = kB, .ragged = false}));
    Dice dice(k);
    for (int64_t b = 0; b < kB; ++b) kind.lengths.push_back(dice.Integer(0, kT));
    kind.lengths[k % kB] = kT;  // so that all have one shape
  }
  cuda::CudaExecutable execution(graph, device());
  RunOn(&execution, kinds[0]);
  DeviceLog log(&execution, kT, kB, kCalls);
  Dice dice(17);
  std::vector<size_t> order;
  for (int call = 0; call < kCalls; ++call) {
    order.push_back(static_cast<size_t>(call < kKinds ? call : dice.Integer(0, kKinds - 1)));
    RunOn(&execution, kinds[order.back()]);
    log.Note(call);
  }
  std::vector<std::vector<float>> first;
  for (int k = 0; k < kKinds; ++k) first.push_back(log.Read(k));
  for (int call = kKinds; call < kCalls; ++call) {
    ASSERT_TRUE(log.Read(call) == first[order[static_cast<size_t>(call)]]) << "call " << call;
  }
  for (const Bindings& kind : kinds) {
    cuda::CudaExecutable fresh(graph, device());
    const Outputs got = RunAndRead(&execution, kind);
    EXPECT_TRUE(RunAndRead(&fresh, kind) == got) << "a fresh executable";
    EXPECT_EQ(Differences(graph, kind, got, tolerance()), "");
  }
}

// Rows 44 and 45: memory of the device where the host's is wanted, and a device that is not there.
TEST_P(GpuUse, WrongMemoryAndDevicesAreErrorsAndTheNextCallWorks) {
  const Graph graph = TrainingGraph();
  const Bindings bindings = RandomBindings(graph, 3, {.steps = 5, .batch = 3, .ragged = true});
  cuda::CudaExecutable execution(graph, device());
  const Outputs first = RunAndRead(&execution, bindings);
  const cuda::DeviceBuffer buffer(75 * sizeof(float), "a test");
  const std::span numbers(reinterpret_cast<const float*>(buffer.data()), 75);
  const std::span lengths(reinterpret_cast<const int32_t*>(buffer.data()), 3);
  const std::span resets(reinterpret_cast<const uint8_t*>(buffer.data()), 15);
  ExpectParts(ErrorOf([&] { execution.Bind("x", numbers); }),
              {"'x'", "memory of device 0", "wants the host's"});
  ExpectParts(ErrorOf([&] { execution.SetShape(5, 3, lengths); }), {"lengths", "device 0"});
  ExpectParts(ErrorOf([&] { execution.SetShape(5, 3, {}, resets); }), {"resets", "device 0"});
  EXPECT_TRUE(RunAndRead(&execution, bindings) == first);
  const std::vector<float> wrong(7);
  ExpectParts(ErrorOf([&] { execution.Bind("x", wrong); }), {"'x' got 7 elements, wants 75"});
  ExpectParts(ErrorOf([&] {
                cuda::CudaExecutable(graph, {.index = 99, .precision = GetParam().precision});
              }),
              {"got device 99, wants one of 0 to"});
  EXPECT_TRUE(RunAndRead(&execution, bindings) == first);
}

TEST_P(GpuUse, AShapeBeyondTheMemoryIsAnErrorThatNamesItAndTheNextCallWorks) {
  const Graph graph = TrainingGraph();
  const Bindings bindings = RandomBindings(graph, 3, {.steps = 5, .batch = 3, .ragged = true});
  cuda::CudaExecutable execution(graph, device());
  const Outputs first = RunAndRead(&execution, bindings);
  for (const auto& [steps, batch] :
       {std::pair<int64_t, int64_t>{1'000'000, 1'000'000}, {100'000, 100'000}}) {
    const std::string error = ErrorOf([&] { execution.SetShape(steps, batch); });
    ExpectParts(error, {fmt::format("{} steps of {} sequences", steps, batch), "the largest", "'",
                        "bytes of device memory", "are free"});
    ExpectParts(ErrorOf([&] { execution.Run(); }), {"[run]", "memory"});
    EXPECT_TRUE(RunAndRead(&execution, bindings) == first) << "unusable after an error";
  }
}

// Bytes of the device and of this process that are in use.
struct InUse {
  int64_t device = 0;
  int64_t host = 0;
};
InUse MemoryInUse() {
  size_t free = 0, total = 0;
  TL_CUDA_CHECK(cudaMemGetInfo(&free, &total));
  std::ifstream file("/proc/self/statm");
  int64_t all = 0, resident = 0;
  file >> all >> resident;
  return {static_cast<int64_t>(total - free), resident * sysconf(_SC_PAGESIZE)};
}

// Row 49. The same lengths three times: a graph is kept for every shape, and all of them are
// recorded anew when memory that they share has to grow, as may happen in the first third.
TEST_P(GpuUse, MemoryStopsGrowing) {
  constexpr int64_t kMostSteps = 300;
  constexpr int64_t kB = 8;
  constexpr int64_t kThird = 334;
  const Graph graph = WithGradients(RecurrentGraph(OptionsOf(8, 64)));
  const Bindings bindings =
      RandomBindings(graph, 1, {.steps = kMostSteps, .batch = kB, .ragged = false});
  std::map<std::string, std::vector<float>> values;
  for (const auto& [name, array] : bindings.values) values[name] = Narrow(array);
  cuda::CudaExecutable execution(graph, device());
  const auto run = [&](int64_t steps) {
    execution.SetShape(steps, kB);
    for (const NamedView& input : execution.lowered().inputs) {
      const std::span<const float> all = values.at(input.name);
      execution.Bind(input.name, all.first(static_cast<size_t>(ElementsOf(input, steps, kB))));
    }
    execution.Run({.training = true});
  };
  const auto run_third = [&] {
    Dice dice(19);
    run(kMostSteps);
    for (int64_t i = 1; i < kThird; ++i) run(dice.Integer(1, kMostSteps));
    execution.Synchronize();
    return MemoryInUse();
  };
  run_third();
  const InUse before = run_third();
  const int64_t planned = execution.memory_bytes();
  const InUse after = run_third();
  RecordProperty("device_bytes_before", std::to_string(before.device));
  RecordProperty("device_bytes_after", std::to_string(after.device));
  EXPECT_EQ(execution.memory_bytes(), planned);
  EXPECT_LE(static_cast<double>(after.device), 1.01 * static_cast<double>(before.device));
  EXPECT_LE(static_cast<double>(after.host), 1.01 * static_cast<double>(before.host));
}

// What memory holds before a run reaches no result: bytes of ones are no numbers in any type.
TEST_P(GpuUse, NoResultDependsOnWhatMemoryHeldBefore) {
  const Graph graph = TrainingGraph();
  for (const bool ragged : {false, true}) {
    const Bindings bindings = RandomBindings(graph, 8, {.steps = 7, .batch = 5, .ragged = ragged});
    const auto run_on = [&](const char* byte) {
      const cuda::FilledMemory filled(byte);
      cuda::CudaExecutable execution(graph, device());
      return RunAndRead(&execution, bindings);
    };
    const Outputs zeros = run_on("0");
    EXPECT_TRUE(run_on("255") == zeros) << (ragged ? "ragged" : "full");
    cuda::CudaExecutable plain(graph, device());
    EXPECT_TRUE(RunAndRead(&plain, bindings) == zeros) << (ragged ? "ragged" : "full");
    EXPECT_EQ(Differences(graph, bindings, zeros, tolerance()), "");
  }
}

// Small enough for tools that watch every access to memory; 32 units run in a persistent kernel
// where there is one.
class GpuTiny : public GpuTest {};

TEST_P(GpuTiny, AgreesWithTheInterpreter) {
  RecurrentOptions options = OptionsOf(8, 32);
  options.bidirectional = true;
  const Graph graph = WithGradients(RecurrentGraph(options));
  cuda::CudaExecutable execution(graph, device());
  Bindings bindings = RandomBindings(graph, 2, {.steps = 3, .batch = 2, .ragged = false});
  bindings.lengths = {3, 2};
  EXPECT_EQ(Differences(graph, bindings, RunAndRead(&execution, bindings), tolerance()), "");
  const bool persistent =
      GetParam().precision != Precision::kFloat32 && GetParam().cell != "layer_norm_lstm";
  EXPECT_EQ(execution.persistent_loops(), persistent ? 4 : 0);
}

INSTANTIATE_TEST_SUITE_P(Cells, GpuTiny,
                         ::testing::ValuesIn(GpuCases({"lstm", "gru", "layer_norm_lstm"})),
                         [](const auto& param) { return NameOf(param.param); });
INSTANTIATE_TEST_SUITE_P(Cells, GpuUse, ::testing::ValuesIn(GpuCases({"lstm", "gru"})),
                         [](const auto& param) { return NameOf(param.param); });

}  // namespace
}  // namespace turbolstm
