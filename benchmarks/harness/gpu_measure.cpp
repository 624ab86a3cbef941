#include "harness/gpu_measure.h"

#include <cuda.h>
#include <cxxabi.h>

#include <cstdlib>
#include <memory>

namespace turbolstm::bench {
namespace {

constexpr int kWarmUps = 1;

std::string VersionText(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

// A function of the driver, without linking it: the program starts where there is no driver.
template <typename Function>
Function DriverFunction(const char* name) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  TL_BENCH_CUDA(
      cudaGetDriverEntryPointByVersion(name, &function, 12030, cudaEnableDefault, &found));
  TL_CHECK(found == cudaDriverEntryPointSuccess, "[cuda] the driver has no {}", name);
  return reinterpret_cast<Function>(function);
}

void CountKernels(cudaGraph_t graph, std::map<std::string, int>* counts) {
  static const auto parameters_of =
      DriverFunction<decltype(&cuGraphKernelNodeGetParams)>("cuGraphKernelNodeGetParams");
  static const auto function_name = DriverFunction<decltype(&cuFuncGetName)>("cuFuncGetName");
  static const auto kernel_name = DriverFunction<decltype(&cuKernelGetName)>("cuKernelGetName");
  size_t count = 0;
  TL_BENCH_CUDA(cudaGraphGetNodes(graph, nullptr, &count));
  std::vector<cudaGraphNode_t> nodes(count);
  TL_BENCH_CUDA(cudaGraphGetNodes(graph, nodes.data(), &count));
  for (const cudaGraphNode_t node : nodes) {
    cudaGraphNodeType type{};
    TL_BENCH_CUDA(cudaGraphNodeGetType(node, &type));
    if (type == cudaGraphNodeTypeGraph) {
      cudaGraph_t child = nullptr;
      TL_BENCH_CUDA(cudaGraphChildGraphNodeGetGraph(node, &child));
      CountKernels(child, counts);
    } else if (type == cudaGraphNodeTypeKernel) {
      CUDA_KERNEL_NODE_PARAMS parameters{};
      TL_CHECK(parameters_of(node, &parameters) == CUDA_SUCCESS, "[cuda] a kernel without name");
      const char* name = nullptr;
      const CUresult status = parameters.func != nullptr ? function_name(&name, parameters.func)
                                                         : kernel_name(&name, parameters.kern);
      TL_CHECK(status == CUDA_SUCCESS, "[cuda] a kernel without name");
      ++(*counts)[ShortName(name)];
    }
  }
}

// With the owners in the header, apart from those of src/backend/cuda: the programs of rivals are
// measured by this and must not depend on our backend.
class Event {
 public:
  Event() { TL_BENCH_CUDA(cudaEventCreate(&event_)); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void Record(cudaStream_t stream) { TL_BENCH_CUDA(cudaEventRecord(event_, stream)); }
  double MillisecondsSince(const Event& start) const {
    float milliseconds = 0;
    TL_BENCH_CUDA(cudaEventElapsedTime(&milliseconds, start.event_, event_));
    return milliseconds;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace

std::string ShortName(const std::string& symbol) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> readable(
      abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status), &std::free);
  std::string name = status == 0 ? readable.get() : symbol;
  if (name.starts_with("void ")) name.erase(0, 5);
  constexpr std::string_view kUnnamed = "(anonymous namespace)::";
  for (size_t at = name.find(kUnnamed); at != name.npos; at = name.find(kUnnamed)) {
    name.erase(at, kUnnamed.size());
  }
  return name.substr(0, name.find_first_of("<("));
}

std::string GpuName() {
  cudaDeviceProp properties{};
  TL_BENCH_CUDA(cudaGetDeviceProperties(&properties, 0));
  return properties.name;
}

std::string GpuDriverInterface() {
  int version = 0;
  TL_BENCH_CUDA(cudaDriverGetVersion(&version));
  return VersionText(version);
}

std::string GpuRuntime() {
  int version = 0;
  TL_BENCH_CUDA(cudaRuntimeGetVersion(&version));
  return VersionText(version);
}

GpuBuffer::GpuBuffer(size_t bytes) : bytes_(bytes) {
  if (bytes > 0) TL_BENCH_CUDA(cudaMalloc(&data_, bytes));
}

GpuBuffer::~GpuBuffer() {
  cudaFree(data_);
}

GpuGraph::GpuGraph(cudaStream_t stream, const std::function<void()>& work) : stream_(stream) {
  TL_BENCH_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  try {
    work();
  } catch (...) {
    cudaStreamEndCapture(stream, &graph_);
    if (graph_ != nullptr) cudaGraphDestroy(graph_);
    cudaGetLastError();
    throw;
  }
  TL_BENCH_CUDA(cudaStreamEndCapture(stream, &graph_));
  TL_BENCH_CUDA(cudaGraphInstantiate(&executable_, graph_, 0));
}

GpuGraph::~GpuGraph() {
  cudaGraphExecDestroy(executable_);
  cudaGraphDestroy(graph_);
}

std::map<std::string, int> GpuGraph::Kernels() const {
  std::map<std::string, int> counts;
  CountKernels(graph_, &counts);
  return counts;
}

std::vector<Timing> MeasureOnGpu(cudaStream_t stream, int runs,
                                 const std::vector<std::function<void()>>& parts,
                                 const std::function<void()>& prepare) {
  const size_t marks = parts.size() + 1;
  std::vector<Event> events(static_cast<size_t>(runs) * marks);
  for (int run = -kWarmUps; run < runs; ++run) {
    prepare();
    Event* const at = run < 0 ? nullptr : &events[static_cast<size_t>(run) * marks];
    if (at != nullptr) at[0].Record(stream);
    for (size_t part = 0; part < parts.size(); ++part) {
      parts[part]();
      if (at != nullptr) at[part + 1].Record(stream);
    }
  }
  TL_BENCH_CUDA(cudaStreamSynchronize(stream));
  std::vector<Timing> timings;
  for (size_t part = 0; part < marks; ++part) {
    const size_t from = part < parts.size() ? part : 0;
    const size_t to = part < parts.size() ? part + 1 : parts.size();
    std::vector<double> times;
    for (size_t first = 0; first < events.size(); first += marks) {
      times.push_back(events[first + to].MillisecondsSince(events[first + from]));
    }
    timings.push_back(Summarise(std::move(times)));
  }
  return timings;
}

}  // namespace turbolstm::bench
