#pragma once

#include "execution/operators_cuda.h"

// The kernels behind operators_cuda.h. Arguments have been checked.
namespace turbolstm::cuda {

void LaunchRowOperator(const OperatorCall& call, const RowRange& range,
                       const OperatorContext& context);
void LaunchSequenceOperator(const OperatorCall& call, const OperatorContext& context);
void LaunchSumRows(const WideOperand& x, const RowRange& range, float* y, void* scratch,
                   const OperatorContext& context);
void LaunchOrderRows(const WideOperand& index, const RowRange& range, int64_t entries,
                     void* scratch, int32_t stage, const OperatorContext& context);
void LaunchAddOrderedRows(const WideOperand& g, const RowRange& range, int64_t entries, float* y,
                          void* scratch, const OperatorContext& context);
void LaunchGatherRows(const WideOperand& x, const RowRange& range, DType dtype, void* y,
                      const OperatorContext& context);
void LaunchConvert(const void* x, DType from, void* y, DType to, int64_t count,
                   cudaStream_t stream);

}  // namespace turbolstm::cuda
