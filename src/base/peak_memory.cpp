#include "base/peak_memory.h"

#include <malloc.h>

#include <fstream>
#include <string>

namespace turbolstm {
namespace {

// A "VmRSS: 123 kB" line of /proc/self/status, in MiB.
double StatusMebibytes(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(key + ":")) return std::stod(line.substr(key.size() + 1)) / 1024;
  }
  return 0;
}

}  // namespace

PeakMemory::PeakMemory() {
  malloc_trim(0);
  std::ofstream reset("/proc/self/clear_refs");
  works_ = static_cast<bool>(reset << "5" << std::flush);
  start_ = StatusMebibytes("VmRSS");
}

double PeakMemory::Mebibytes() const {
  return works_ ? StatusMebibytes("VmHWM") - start_ : 0;
}

}  // namespace turbolstm
