#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "harness/measure.h"

// Throws Error with the failing expression.
#define TL_BENCH_CUDA(expression)                                                                \
  do {                                                                                           \
    const cudaError_t status_ = (expression);                                                    \
    TL_CHECK(status_ == cudaSuccess, "[cuda] {}: {}", #expression, cudaGetErrorString(status_)); \
  } while (false)

namespace turbolstm::bench {

// "NVIDIA H200". Throws Error when there is no GPU.
std::string GpuName();
// Version as "13.0" of the driver's and of the runtime's interface.
std::string GpuDriverInterface();
std::string GpuRuntime();

// A kernel's name without template arguments and parameters.
std::string ShortName(const std::string& symbol);

// Memory of the GPU, not initialised; nothing if `bytes` is 0.
class GpuBuffer {
 public:
  explicit GpuBuffer(size_t bytes);
  ~GpuBuffer();
  GpuBuffer(const GpuBuffer&) = delete;
  GpuBuffer& operator=(const GpuBuffer&) = delete;

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  size_t bytes_;
};

// What `work` launches on `stream`, captured once and replayed with Launch().
class GpuGraph {
 public:
  GpuGraph(cudaStream_t stream, const std::function<void()>& work);
  ~GpuGraph();
  GpuGraph(const GpuGraph&) = delete;
  GpuGraph& operator=(const GpuGraph&) = delete;

  void Launch() { TL_BENCH_CUDA(cudaGraphLaunch(executable_, stream_)); }
  // Times each kernel occurs, by its name without template arguments and parameters.
  std::map<std::string, int> Kernels() const;

 private:
  cudaStream_t stream_;
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t executable_ = nullptr;
};

// Times of `parts` on the GPU, run one after the other `runs` times behind one to warm up, as a
// training loop runs them: the host does not wait in between. One result a part, and the sum
// last. `prepare` runs before each repeat and is not counted.
std::vector<Timing> MeasureOnGpu(cudaStream_t stream, int runs,
                                 const std::vector<std::function<void()>>& parts,
                                 const std::function<void()>& prepare);

}  // namespace turbolstm::bench
