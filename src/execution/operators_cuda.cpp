// Checks what the kernels take for granted.

#include "execution/operators_cuda.h"

#include <algorithm>

#include "base/error.h"
#include "execution/device_operator.h"
#include "execution/launch_cuda.h"

namespace turbolstm::cuda {
namespace {

bool HoldsNumbers(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kBFloat16 || dtype == DType::kFloat16 ||
         dtype == DType::kInt32;
}

void CheckType(std::string_view op, DType dtype) {
  TL_CHECK(HoldsNumbers(dtype), "[{}] got {}, wants float32, bfloat16, float16 or int32", op,
           Name(dtype));
}

void CheckIndexOperand(std::string_view op, const WideOperand& x) {
  const auto dtype = static_cast<DType>(x.rows.dtype);
  TL_CHECK(dtype == DType::kInt32, "[{}] got indices of {}, wants int32", op, Name(dtype));
}

void CheckCall(const OperatorCall& call) {
  const std::string_view op = Traits(call.op).name;
  const int arity = Traits(call.op).arity;
  TL_CHECK(arity < 0 ? !call.inputs.empty() : std::ssize(call.inputs) == arity,
           "[{}] got {} operands, wants {}", op, call.inputs.size(),
           arity < 0 ? "at least 1" : std::to_string(arity));
  for (const WideOperand& x : call.inputs) CheckType(op, static_cast<DType>(x.rows.dtype));
  CheckType(op, static_cast<DType>(call.output.dtype));
}

void CheckRange(std::string_view op, const RowRange& range) {
  TL_CHECK(range.time_begin >= 0 && range.steps >= 0, "[{}] got {} steps from {}, wants >= 0", op,
           range.steps, range.time_begin);
}

// Of the operators that histories belong to.
void CheckDelay(const OperatorCall& call) {
  if (call.op == Op::kFinal) {
    TL_CHECK(call.inputs[0].rows.delay > 0, "[final] the operand has no delay");
  } else {
    TL_CHECK(call.attributes.size > 0, "[{}] got delay {}, wants > 0", Traits(call.op).name,
             call.attributes.size);
  }
}

}  // namespace

void RunRowOperator(const OperatorCall& call, const RowRange& range,
                    const OperatorContext& context) {
  CheckCall(call);
  const std::string_view op = Traits(call.op).name;
  CheckRange(op, range);
  switch (call.op) {
    case Op::kRandomMask:
      TL_CHECK(context.run, "[{}] wants the numbers of the run", op);
      break;
    case Op::kGather:
    case Op::kCrossEntropy:
      CheckIndexOperand(op, call.inputs[1]);
      TL_CHECK(context.fault, "[{}] wants room for a fault", op);
      break;
    case Op::kOneHot:
      CheckIndexOperand(op, call.inputs[0]);
      TL_CHECK(context.fault, "[{}] wants room for a fault", op);
      break;
    default:
      TL_CHECK(DeviceKernelOf(call.op) == DeviceKernel::kRow, "[{}] does not run row by row", op);
  }
  LaunchRowOperator(call, range, context);
}

void RunSequenceOperator(const OperatorCall& call, const OperatorContext& context) {
  CheckCall(call);
  TL_CHECK(DeviceKernelOf(call.op) == DeviceKernel::kSequence,
           "[{}] does not run over whole sequences", Traits(call.op).name);
  if (call.op != Op::kSumTime && call.op != Op::kFirstMaxMask) CheckDelay(call);
  LaunchSequenceOperator(call, context);
}

void SumRows(const WideOperand& x, const RowRange& range, float* y, void* scratch,
             const OperatorContext& context) {
  CheckType("sum_rows", static_cast<DType>(x.rows.dtype));
  CheckRange("sum_rows", range);
  if (x.width > 0) LaunchSumRows(x, range, y, scratch, context);
}

void ScatterAdd(const WideOperand& index, const WideOperand& g, const RowRange& range,
                int64_t entries, float* y, void* scratch, int32_t stage,
                const OperatorContext& context) {
  OrderRows(index, range, entries, scratch, stage, context);
  AddOrderedRows(g, range, entries, y, scratch, context);
}

void OrderRows(const WideOperand& index, const RowRange& range, int64_t entries, void* scratch,
               int32_t stage, const OperatorContext& context) {
  constexpr int64_t kMost = int64_t{1} << 31;
  CheckIndexOperand("scatter_add", index);
  CheckRange("scatter_add", range);
  TL_CHECK(context.fault, "[scatter_add] wants room for a fault");
  TL_CHECK(entries >= 0 && entries < kMost, "[scatter_add] got {} entries, wants fewer than {}",
           entries, kMost);
  TL_CHECK(range.steps * context.sequences.batch < kMost,
           "[scatter_add] got {} rows, wants fewer than {}", range.steps * context.sequences.batch,
           kMost);
  LaunchOrderRows(index, range, entries, scratch, stage, context);
}

void AddOrderedRows(const WideOperand& g, const RowRange& range, int64_t entries, float* y,
                    void* scratch, const OperatorContext& context) {
  CheckType("scatter_add", static_cast<DType>(g.rows.dtype));
  LaunchAddOrderedRows(g, range, entries, y, scratch, context);
}

void GatherRows(const WideOperand& x, const RowRange& range, DType dtype, void* y,
                const OperatorContext& context) {
  CheckType("gather_rows", static_cast<DType>(x.rows.dtype));
  CheckType("gather_rows", dtype);
  CheckRange("gather_rows", range);
  LaunchGatherRows(x, range, dtype, y, context);
}

void Convert(const void* x, DType from, void* y, DType to, int64_t count, cudaStream_t stream) {
  CheckType("convert", from);
  CheckType("convert", to);
  LaunchConvert(x, from, y, to, count, stream);
}

}  // namespace turbolstm::cuda
