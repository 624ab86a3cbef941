#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace turbolstm::bench {

// Something the device did, or the host waited for.
struct Activity {
  enum class Kind : uint8_t { kKernel, kCopy, kFill, kWait };

  Kind kind = Kind::kKernel;
  std::string name;
  int64_t start = 0, end = 0;  // nanoseconds
  uint32_t stream = 0;
  uint32_t launch = 0;  // the host's call that caused it; all of a replayed graph have one
  bool replayed = false;
};

// Parts of the time from the device's first activity to the end of its last. `activities`: in the
// order of beginning; waits of the host are none of the device.
struct Idleness {
  double span_ms = 0;
  double busy_ms = 0;     // at least one activity
  double within_ms = 0;   // idle between two activities of one replay
  double between_ms = 0;  // idle otherwise
};
Idleness IdlenessOf(const std::vector<Activity>& activities);

// A file that chrome://tracing and Perfetto open.
void WriteChromeTrace(const std::vector<Activity>& activities, const std::filesystem::path& path);

}  // namespace turbolstm::bench
