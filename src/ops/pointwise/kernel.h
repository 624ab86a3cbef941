#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/dtype.h"
#include "ops/pointwise/program.h"

namespace turbolstm {

// Where an input or output lies: element (r, j) is at data[r * row_stride + j]. A row vector and a
// scalar ignore row_stride, a column has its elements at data[r * row_stride].
struct PointwiseSlot {
  void* data = nullptr;
  int64_t row_stride = 0;  // in elements; 0 is legal for inputs
  DType dtype = DType::kFloat32;
};

// The tensors of one run, in the order of the program. An output may be the very memory of an
// element input (same data, stride and dtype); any other overlap of an output is an error that
// nobody checks.
struct PointwiseArgs {
  int64_t rows = 0;
  int64_t n = 0;
  const PointwiseSlot* inputs = nullptr;
  const PointwiseSlot* outputs = nullptr;
};

// A fused kernel, one pass over the elements. Computes in fp32; slots are fp32 or bf16.
using PointwiseFunction = void (*)(const PointwiseArgs& args);

class PointwiseTileCode;

// A program made ready to run; may be copied, and called from several threads at once. The bits of
// an element depend on its inputs and the CPU target alone: not on the shape, on its place, or on
// whether the kernel was compiled ahead of time.
class PointwiseKernel {
 public:
  // `function` may be null; then the tile-wise interpreter runs.
  PointwiseKernel(const PointwiseProgram& program, PointwiseFunction function);

  // rows = 0 and n = 0 are legal. Throws Error on a dtype that is neither fp32 nor bf16.
  void operator()(const PointwiseArgs& args) const;

  bool AheadOfTime() const { return function_ != nullptr; }

 private:
  PointwiseFunction function_ = nullptr;
  std::shared_ptr<const PointwiseTileCode> tile_code_;
  size_t input_count_ = 0;
  size_t output_count_ = 0;
  bool flat_ = false;  // every input is an element or a scalar
};

// One kernel compiled ahead of time, under the text of its program.
struct PointwiseRegistration {
  std::string_view text;
  PointwiseFunction function;
};

// Makes kernels known to CompilePointwise; a text that is there already gets the new function.
// Emitted sources define a function that calls this, and whoever links them calls that once.
void RegisterPointwiseKernels(std::span<const PointwiseRegistration> kernels);

// The registered kernel of this program if there is one, else the interpreter. Validates the
// program.
PointwiseKernel CompilePointwise(const PointwiseProgram& program);

// Always the interpreter: for comparing the two.
PointwiseKernel InterpretPointwise(const PointwiseProgram& program);

// The oracle: plain loops in double, for slots of fp32, bf16 and fp64 alike.
void RunPointwiseReference(const PointwiseProgram& program, const PointwiseArgs& args);

}  // namespace turbolstm
