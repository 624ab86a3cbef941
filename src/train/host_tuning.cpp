#include "train/host_tuning.h"

#include <fmt/core.h>

#include "base/file_cache.h"
#include "ops/cpu_target.h"

namespace turbolstm {

TuneOptions HostTuning(double seconds) {
  return {.seconds = seconds,
          .cache = FileCache::DefaultFolder(),
          .machine = fmt::format(", {}", Name(CurrentCpuTarget()))};
}

}  // namespace turbolstm
