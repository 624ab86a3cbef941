#include "base/machine.h"

#include <fmt/core.h>

#include <fstream>
#include <thread>

namespace turbolstm {
namespace {

std::string ProcessorName() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown processor";
}

}  // namespace

std::string MachineName() {
  return fmt::format("{}, {} cores", ProcessorName(), std::thread::hardware_concurrency());
}

}  // namespace turbolstm
