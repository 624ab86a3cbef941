#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace turbolstm {

enum class DeviceKind : uint8_t { kCpu, kCuda, kAscend };

// "cpu", "cuda", "ascend".
std::string Name(DeviceKind kind);

// One device that work can run on.
struct DeviceInfo {
  DeviceKind kind = DeviceKind::kCpu;
  int index = 0;              // counts from 0 within its kind
  std::string name;           // as its maker calls it
  uint64_t memory_bytes = 0;  // all of its memory, in use or not
  std::string description;    // what matters for speed: cores and SIMD, or multiprocessors and
                              // compute capability
};

// What one backend found.
struct BackendInfo {
  DeviceKind kind = DeviceKind::kCpu;
  std::vector<DeviceInfo> devices;
  std::string absence;  // why there are no devices; empty when there are some
};

// Every backend of this source tree, also those that are not built or find no device. Never throws
// for a missing driver: the reason stands in `absence`.
std::vector<BackendInfo> ListBackends();

// The devices of all backends, the CPU first.
std::vector<DeviceInfo> ListDevices();

// A vendor's library that a backend works with.
struct LibraryInfo {
  DeviceKind kind = DeviceKind::kCpu;
  std::string name;
  std::string found;  // its version, or what was looked for in vain
};

// Those of all backends that are built. Opens them, which takes a moment.
std::vector<LibraryInfo> ListLibraries();

}  // namespace turbolstm
