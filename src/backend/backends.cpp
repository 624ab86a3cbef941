#include "backend/backends.h"

#include "base/error.h"

namespace turbolstm {

std::string Name(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::kCpu:
      return "cpu";
    case DeviceKind::kCuda:
      return "cuda";
    case DeviceKind::kAscend:
      return "ascend";
  }
  Fail("[device] kind is {}, wants cpu, cuda or ascend", static_cast<int>(kind));
}

std::vector<BackendInfo> ListBackends() {
  return {DescribeCpu(), DescribeCuda(), DescribeAscend()};
}

std::vector<DeviceInfo> ListDevices() {
  std::vector<DeviceInfo> devices;
  for (const BackendInfo& backend : ListBackends()) {
    devices.insert(devices.end(), backend.devices.begin(), backend.devices.end());
  }
  return devices;
}

std::vector<LibraryInfo> ListLibraries() {
  return CudaLibraries();
}

}  // namespace turbolstm
