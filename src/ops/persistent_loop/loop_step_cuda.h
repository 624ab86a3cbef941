#pragma once

#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "ops/device_rows_cuda.h"
#include "ops/pointwise/kernel_cuda.h"

namespace turbolstm::cuda {

// A program's input that the product adds to, or is.
struct ProductInput {
  size_t input = 0;    // of the program
  int64_t column = 0;  // of the product's result, of the input's first element
  bool reads = false;  // the input's memory holds what the product is added to
  bool kept = false;   // the sum is stored, in the order of LoopStep::kept
};

// Where the rows of an input or output lie, seen from a step.
struct LoopRows {
  RowKind kind = RowKind::kStep;
  int64_t period = 0;     // steps that are held; 0: all
  int32_t delay = 0;      // 0 or 1
  bool forward = true;    // a delay reads the step before, else the one after
  bool adjoint = false;   // a reset cuts what is read off at the step read, else at the reader's
  bool has_init = false;  // read where there is no such step; else zeros
};

// One step of a loop: v = W x (+ bias), with x of the step before, then a program that reads v and
// computes x.
struct LoopStep {
  TypedProgram program;
  std::vector<LoopRows> inputs;    // of the program
  std::vector<LoopRows> outputs;   // of the program, then of the kept sums
  std::vector<int64_t> x_columns;  // of the program's outputs: where they lie in x; -1: nowhere
  std::vector<int64_t> carried;    // of the inputs: the output that it is, one step before; or -1
  std::vector<ProductInput> products;
  std::vector<DType> kept;  // types of the outputs behind those of the program
  int64_t units = 0;        // elements of a row of every output
  int64_t columns = 0;      // of v
  int64_t inner = 0;        // elements of x
  LoopRows x;               // delay 1
  int64_t alignment = 2;    // 16, 8, 4 or 2: rows of all inputs and outputs begin at multiples of
                            // so many bytes
  DType operand = DType::kBFloat16;  // bfloat16, float16, or float32
  bool in_pieces = false;  // of float32: products of bf16 pieces (split_product.h), else of tf32
};

// Type of an output in memory, sums that are kept included.
inline DType OutputType(const LoopStep& step, size_t output) {
  const size_t own = step.program.outputs.size();
  return output < own ? step.program.outputs[output] : step.kept[output - own];
}

}  // namespace turbolstm::cuda
