#pragma once

#include <memory>
#include <vector>

#include "harness/activity.h"

namespace turbolstm::bench {

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

}  // namespace turbolstm::bench
