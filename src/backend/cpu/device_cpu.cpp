#include <sched.h>

#include <fstream>
#include <iterator>
#include <thread>

#include "backend/backends.h"
#include "backend/cpu/cpu_info.h"
#include "base/error.h"

namespace turbolstm {
namespace {

// The whole text, or nothing where the file does not open: files of /proc have no size to ask for.
std::string ReadAll(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Hardware threads this process may run on: less than the machine's under taskset or in a
// container.
int UsableThreads() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(std::thread::hardware_concurrency());
}

}  // namespace

BackendInfo DescribeCpu() {
  const CpuInfo cpu = ParseCpuInfo(ReadAll("/proc/cpuinfo"));
  const std::string cores = cpu.cores > 0 ? fmt::format("{} cores, ", cpu.cores) : "";
  DeviceInfo device{
      .kind = DeviceKind::kCpu,
      .index = 0,
      .name = cpu.name.empty() ? "CPU" : cpu.name,
      .memory_bytes = ParseMemTotal(ReadAll("/proc/meminfo")),
      .description = fmt::format("{}{} usable threads, {}", cores, UsableThreads(), cpu.simd)};
  return {.kind = DeviceKind::kCpu, .devices = {std::move(device)}, .absence = {}};
}

}  // namespace turbolstm
