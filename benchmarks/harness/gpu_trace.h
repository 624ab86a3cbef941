#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
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

// Records what all streams of this process do, by CUPTI, which is opened at run time. One at a
// time.
class GpuTrace {
 public:
  // Error: CUPTI is not there, or refuses.
  GpuTrace();
  ~GpuTrace();
  GpuTrace(const GpuTrace&) = delete;
  GpuTrace& operator=(const GpuTrace&) = delete;

  // What ended since the last call, in the order of beginning. The device must be idle.
  std::vector<Activity> Take();

 private:
  class Library;
  std::unique_ptr<Library> library_;
};

// Shares of the time from the first activity's beginning to the last one's end; waits of the host
// are no activities of the device.
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
