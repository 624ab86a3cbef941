#include "execution/device_operator.h"

#include "base/error.h"

namespace turbolstm {

DeviceKernel DeviceKernelOf(Op op) {
  switch (op) {
    case Op::kInput:
    case Op::kParameter:
      return DeviceKernel::kBound;
    case Op::kMatMul:
    case Op::kMatMulTransposed:
    case Op::kOuter:
    case Op::kProduct:
      return DeviceKernel::kProduct;
    case Op::kConstant:
    case Op::kRandomMask:
    case Op::kLengths:
    case Op::kRowCount:
    case Op::kSlice:
    case Op::kPad:
    case Op::kConcat:
    case Op::kRowSum:
    case Op::kGather:
    case Op::kOneHot:
    case Op::kSoftmax:
    case Op::kCrossEntropy:
      return DeviceKernel::kRow;
    case Op::kSumTime:
    case Op::kFirstMaxMask:
    case Op::kFinal:
    case Op::kFinalGrad:
    case Op::kFinalInitGrad:
    case Op::kInitGrad:
      return DeviceKernel::kSequence;
    case Op::kSumRows:
      return DeviceKernel::kSum;
    case Op::kScatterAdd:
      return DeviceKernel::kScatter;
    case Op::kTranspose:
      return DeviceKernel::kTranspose;
    default:
      return Traits(op).pointwise ? DeviceKernel::kFused : DeviceKernel::kNone;
  }
}

std::string_view Name(DeviceKernel kernel) {
  switch (kernel) {
    case DeviceKernel::kNone:
      return "-";
    case DeviceKernel::kBound:
      return "bound memory";
    case DeviceKernel::kProduct:
      return "matrix product";
    case DeviceKernel::kFused:
      return "fused kernel";
    case DeviceKernel::kRow:
      return "row kernel";
    case DeviceKernel::kSequence:
      return "sequence kernel";
    case DeviceKernel::kSum:
      return "ordered sum";
    case DeviceKernel::kScatter:
      return "ordered scatter";
    case DeviceKernel::kTranspose:
      return "static kernel";
  }
  Fail("[device] unknown kind of kernel {}", static_cast<int>(kernel));
}

}  // namespace turbolstm
