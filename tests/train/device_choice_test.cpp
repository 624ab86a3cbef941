#include "train/device_choice.h"

#include <gtest/gtest.h>

#include "base/error_test.h"

namespace turbolstm {
namespace {

bool HasGpu() {
  for (const DeviceInfo& device : ListDevices()) {
    if (device.kind == DeviceKind::kCuda) return true;
  }
  return false;
}

TEST(DeviceChoice, TheCpuIsAlwaysThere) {
  EXPECT_EQ(ChooseDevice("cpu").kind, DeviceKind::kCpu);
  EXPECT_EQ(ChooseDevice("cpu").text, "cpu");
}

TEST(DeviceChoice, AutoTakesAGpuWhereThereIsOneAndSaysSo) {
  const DeviceChoice choice = ChooseDevice("auto");
  EXPECT_EQ(choice.kind == DeviceKind::kCuda, HasGpu());
  ExpectParts(choice.text, {HasGpu() ? "cuda:0" : "cpu (no GPU: "});
}

TEST(DeviceChoice, AGpuThatIsNotThereIsNamedWithWhatWasLookedFor) {
  if (HasGpu()) {
    ExpectParts(ErrorOf([] { ChooseDevice("cuda:4000"); }), {"cuda:4000", "the last", "cuda:"});
  } else {
    ExpectParts(ErrorOf([] { ChooseDevice("cuda"); }), {"'cuda'", "no NVIDIA GPU", "driver"});
  }
}

TEST(DeviceChoice, OtherTextsAreRefused) {
  for (const char* text : {"", "gpu", "cuda:", "cuda:-1", "cuda:1x", "cuda0", "CPU"}) {
    ExpectParts(ErrorOf([&] { ChooseDevice(text); }), {"train.device", "auto, cpu, cuda"});
  }
}

TEST(DeviceChoice, ACpuHasTwoPrecisions) {
  const DeviceChoice cpu = ChooseDevice("cpu");
  const DeviceChoice gpu{DeviceKind::kCuda, 0, "cuda:0"};
  for (const Precision precision : {Precision::kFloat32, Precision::kBFloat16}) {
    EXPECT_NO_THROW(CheckPrecision(cpu, precision));
    EXPECT_EQ(AnswerPrecision(cpu, precision), precision);
  }
  for (const Precision precision : {Precision::kTf32, Precision::kFloat16, Precision::kBf16x6}) {
    ExpectParts(ErrorOf([&] { CheckPrecision(cpu, precision); }),
                {"model.precision", std::string(Name(precision)), "fp32 and bf16"});
    EXPECT_EQ(AnswerPrecision(cpu, precision), Precision::kFloat32);
    EXPECT_NO_THROW(CheckPrecision(gpu, precision));
    EXPECT_EQ(AnswerPrecision(gpu, precision), precision);
  }
}

}  // namespace
}  // namespace turbolstm
