#pragma once

#include <cudnn.h>

#include <memory>
#include <string>

#include "harness/cases.h"
#include "harness/gpu_measure.h"
#include "harness/gpu_values.h"

// Throws Error with cuDNN's words for the failure.
#define TL_BENCH_CUDNN(expression)                                                 \
  do {                                                                             \
    const cudnnStatus_t status_ = (expression);                                    \
    TL_CHECK(status_ == CUDNN_STATUS_SUCCESS, "{}", cudnnGetErrorString(status_)); \
  } while (false)

namespace turbolstm::bench {

// cuDNN's handle with a stream of its own.
class CudnnContext {
 public:
  CudnnContext();
  ~CudnnContext();
  CudnnContext(const CudnnContext&) = delete;
  CudnnContext& operator=(const CudnnContext&) = delete;

  cudnnHandle_t handle() const { return handle_; }
  cudaStream_t stream() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
  cudnnHandle_t handle_ = nullptr;
};

// A precision of the benchmark in cuDNN's terms. Sums and states of the cell are fp32 in all.
struct CudnnPrecision {
  GpuType type;
  cudnnDataType_t data;
  cudnnMathType_t math;
};

// "fp32" (no tensor cores), "tf32", "bf16" or "fp16". Throws Error for another.
CudnnPrecision CudnnPrecisionNamed(const std::string& name);

// Empty descriptors, destroyed with this.
struct CudnnDescriptors {
  CudnnDescriptors();
  ~CudnnDescriptors();
  CudnnDescriptors(const CudnnDescriptors&) = delete;
  CudnnDescriptors& operator=(const CudnnDescriptors&) = delete;

  cudnnDropoutDescriptor_t dropout = nullptr;
  cudnnRNNDescriptor_t rnn = nullptr;
  cudnnRNNDataDescriptor_t x = nullptr, y = nullptr;
  cudnnTensorDescriptor_t state = nullptr;
};

// One network with its memory, time-major, lengths padded. Initial states are zero; gradients go to
// all weights, both biases and the input. Inputs are normally distributed, the weights with
// deviation 1 / sqrt(H). The constructor throws Error where cuDNN does not offer the case.
class CudnnNetwork {
 public:
  CudnnNetwork(const CudnnContext& context, const Case& c, const CudnnPrecision& precision,
               cudnnRNNAlgo_t algorithm, bool training);

  void Forward();
  void BackwardData();
  // Adds to the gradients of the weights: ClearWeightGradients() before.
  void BackwardWeights();
  void ClearWeightGradients();

  // Runs once with outputs that hold no numbers before, and throws Error if they still do after.
  void CheckOutputs();

  size_t workspace_bytes() const { return workspace_->bytes(); }
  size_t reserve_bytes() const { return reserve_->bytes(); }
  // y, and in training the gradients of x and the weights.
  size_t output_bytes() const;
  // All memory of the network.
  size_t total_bytes() const;

 private:
  void Describe(const Case& c, cudnnRNNAlgo_t algorithm);
  void Allocate(const Case& c);

  const CudnnContext& context_;
  CudnnPrecision precision_;
  bool training_, ragged_;
  CudnnDescriptors descriptors_;
  std::unique_ptr<GpuBuffer> x_, y_, dx_, dy_, weights_, weight_gradients_, workspace_, reserve_,
      lengths_;
};

}  // namespace turbolstm::bench
