#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace turbolstm {

struct CpuInfo {
  std::string name;  // "model name" of /proc/cpuinfo; empty where the kernel gives none
  std::string simd;  // widest level the kernels have code for: "AVX-512 + BF16", "AVX-512", "AVX2",
                     // "portable"
  int cores = 0;     // physical, of the whole machine; 0 where the kernel does not tell
};

// Reads the text of /proc/cpuinfo. Unknown or missing lines are no error: they leave the defaults.
CpuInfo ParseCpuInfo(std::string_view text);

// The bytes of the line "MemTotal: <n> kB" of /proc/meminfo; 0 where it is missing.
uint64_t ParseMemTotal(std::string_view text);

}  // namespace turbolstm
