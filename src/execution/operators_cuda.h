#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "graph/graph.h"
#include "ops/device_rows_cuda.h"

// Operators that are neither products nor pointwise, as kernels. Every function enqueues on the
// stream and returns; empty sizes enqueue nothing. Sums add up in an order that depends on the
// shape alone. Offsets are 64 bits wide.
namespace turbolstm::cuda {

// What may change from run to run of a recorded graph; lies in device memory.
struct RunNumbers {
  uint64_t seed = 0;
  uint32_t training_step = 0;
  int32_t training = 0;  // 0: masks are their mean
};

// The first index outside its table; lies in device memory, all zero before a run.
struct IndexFault {
  int32_t found = 0;  // 1 + stage
  int32_t index = 0;
  int64_t time = 0;
  int64_t sequence = 0;  // the caller's number
};

// An operand of `width` elements a row.
struct WideOperand {
  RowOperand rows;
  int64_t width = 0;
};

// One operator on rows, or over whole sequences, as plan/stage_runner runs it.
struct OperatorCall {
  Op op = Op::kIdentity;
  Attributes attributes;
  Domain domain = Domain::kStep;  // of the rows walked over
  int32_t stage = 0;              // named in an IndexFault
  std::vector<WideOperand> inputs;
  RowOutput output;
  int64_t width = 0;  // of a row of the output
};

struct OperatorContext {
  Sequences sequences;
  const RunNumbers* run = nullptr;  // device memory
  IndexFault* fault = nullptr;      // device memory
  cudaStream_t stream = nullptr;
};

// kConstant, kLengths, kRowCount, kRandomMask, kRowSum, kPad, kSlice, kConcat (of rows), kGather,
// kOneHot, kSoftmax, kCrossEntropy: on the rows of `range`, or on one row when the call's domain is
// static. Padding is written as zeros. Attributes.begin counts elements of the row.
void RunRowOperator(const OperatorCall& call, const RowRange& range,
                    const OperatorContext& context);

// kSumTime, kFirstMaxMask, kFinal, kFinalGrad, kFinalInitGrad, kInitGrad: whole sequences.
void RunSequenceOperator(const OperatorCall& call, const OperatorContext& context);

// y[c] = sum over the rows of `range` that are no padding of x[c]; fp32 [width].
// scratch: SumRowsScratchBytes(width) bytes.
int64_t SumRowsScratchBytes(int64_t width);
void SumRows(const WideOperand& x, const RowRange& range, float* y, void* scratch,
             const OperatorContext& context);

// y[index of row] += g of row, over the rows of `range` that are no padding, for a table
// [entries, width] that is zeroed first. Rows of one entry are added in the order of time, then
// place; where there are many, equal parts of them are, and then the parts. At most 2^31 rows.
// scratch: ScatterAddScratchBytes(rows, entries) bytes, aligned to 256.
int64_t ScatterAddScratchBytes(int64_t rows, int64_t entries);
void ScatterAdd(const WideOperand& index, const WideOperand& g, const RowRange& range,
                int64_t entries, float* y, void* scratch, int32_t stage,
                const OperatorContext& context);
// The two halves of it: the first puts the rows in the order of their entries, which takes the
// indices only; the second adds them up, given the scratch memory as the first left it.
void OrderRows(const WideOperand& index, const RowRange& range, int64_t entries, void* scratch,
               int32_t stage, const OperatorContext& context);
void AddOrderedRows(const WideOperand& g, const RowRange& range, int64_t entries, float* y,
                    void* scratch, const OperatorContext& context);

// Writes the rows that an operand reads, one after the other, [steps * batch, width] of `dtype`;
// zeros for padding. An operand that has another type is converted.
void GatherRows(const WideOperand& x, const RowRange& range, DType dtype, void* y,
                const OperatorContext& context);

// y[i] = x[i] converted; both [count].
void Convert(const void* x, DType from, void* y, DType to, int64_t count, cudaStream_t stream);

// A row-major fp32 matrix and a 16-bit copy of it, whose rows begin `stride` elements apart: a
// multiple of 4, at multiples of 8 bytes. What is behind the columns is filled with zeros.
struct NarrowCopy {
  const float* x = nullptr;
  void* y = nullptr;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t stride = 0;
};
// All of them at once.
void CopyNarrow(std::span<const NarrowCopy> copies, DType to, cudaStream_t stream);

// Static fp32 values. Matrices are row-major; `matrices` of them, one after the other. x is
// [matrices, rows, columns], y its transpose [matrices, columns, rows].
void CopyStatic(const float* x, float* y, int64_t count, cudaStream_t stream);
void TransposeStatic(const float* x, float* y, int64_t matrices, int64_t rows, int64_t columns,
                     cudaStream_t stream);

}  // namespace turbolstm::cuda
