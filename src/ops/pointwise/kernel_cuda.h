#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "ops/device_rows_cuda.h"
#include "ops/pointwise/program.h"

namespace turbolstm::cuda {

// A program with the types that its inputs and outputs have in memory (float32, bfloat16, float16);
// it computes in fp32. An input of kind kColumn or kScalar has one element a row, a kRowVector and
// a kScalar are shared by all rows.
struct TypedProgram {
  PointwiseProgram program;
  std::vector<DType> inputs;
  std::vector<DType> outputs;
  // Runs the steps of its rows one after the other in one kernel, each element in one thread; so an
  // element may read what it wrote at earlier steps.
  bool time_loop = false;
  // time_loop: the input that is output `scan_output` some steps before, which is linear in it (see
  // affine.h); -1: none. Then a long loop of few elements runs as a parallel prefix.
  int scan_input = -1;
  int scan_output = -1;
};

// The rows of one run, in the order of the program.
struct PointwiseRun {
  Sequences sequences = {};
  RowRange range = {};
  bool reverse = false;  // time_loop: from the last step to the first
  long long n = 0;       // elements of a row of every output
  std::span<const RowOperand> inputs = {};
  std::span<const RowOutput> outputs = {};
  // Lets the kernel be set up while the one before it on the stream still ends, where the device
  // can do that. What was enqueued last must be a kernel.
  bool follows_kernel = false;
};

class PointwiseKernel {
 public:
  struct Code;
  PointwiseKernel() = default;
  explicit PointwiseKernel(std::shared_ptr<const Code> code) : code_(std::move(code)) {}

  // Enqueues one kernel; nothing for empty runs.
  void Launch(const PointwiseRun& run, cudaStream_t stream) const;
  // Whether it was compiled with this program, not at run time.
  bool AheadOfTime() const;

 private:
  std::shared_ptr<const Code> code_;
};

// Kernels for the current device, in the order of the programs: those compiled ahead of time, else
// from the cache on disk, else compiled now, all together. Validates the programs. Throws Error
// with the compiler's log when that fails.
std::vector<PointwiseKernel> CompilePointwise(std::span<const TypedProgram> programs);

}  // namespace turbolstm::cuda
