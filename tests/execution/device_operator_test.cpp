#include "execution/device_operator.h"

#include <gtest/gtest.h>

namespace turbolstm {
namespace {

TEST(DeviceOperator, EveryOperatorHasAKernel) {
  for (int i = 0; i <= static_cast<int>(Op::kCrossEntropy); ++i) {
    const auto op = static_cast<Op>(i);
    EXPECT_NE(DeviceKernelOf(op), DeviceKernel::kNone) << Traits(op).name;
    EXPECT_NE(Name(DeviceKernelOf(op)), "-") << Traits(op).name;
    EXPECT_EQ(DeviceKernelOf(op) == DeviceKernel::kFused, Traits(op).pointwise) << Traits(op).name;
  }
}

}  // namespace
}  // namespace turbolstm
