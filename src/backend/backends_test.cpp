#include "backend/backends.h"

#include <gtest/gtest.h>

namespace turbolstm {
namespace {

TEST(ListDevices, BeginsWithTheCpu) {
  const std::vector<DeviceInfo> devices = ListDevices();
  ASSERT_FALSE(devices.empty());
  EXPECT_EQ(devices[0].kind, DeviceKind::kCpu);
  EXPECT_EQ(devices[0].index, 0);
  EXPECT_FALSE(devices[0].name.empty());
  EXPECT_GT(devices[0].memory_bytes, uint64_t{1} << 20);
}

TEST(ListBackends, SaysWhyABackendHasNoDevices) {
  const std::vector<BackendInfo> backends = ListBackends();
  ASSERT_EQ(backends.size(), 3u);
  for (const BackendInfo& backend : backends) {
    EXPECT_EQ(backend.devices.empty(), !backend.absence.empty()) << Name(backend.kind);
  }
  EXPECT_EQ(backends[2].absence, "built without Ascend");
}

}  // namespace
}  // namespace turbolstm
