#include "backend/cpu/cpu_info.h"

#include <charconv>
#include <set>
#include <utility>

namespace turbolstm {
namespace {

std::string_view Trim(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// Calls visit(key, value) for each line "key : value".
template <typename Visit>
void ForEachField(std::string_view text, Visit visit) {
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    if (const size_t colon = line.find(':'); colon != std::string_view::npos) {
      visit(Trim(line.substr(0, colon)), Trim(line.substr(colon + 1)));
    }
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
  }
}

bool HasWord(std::string_view words, std::string_view wanted) {
  while (!words.empty()) {
    const size_t end = words.find(' ');
    if (words.substr(0, end) == wanted) return true;
    words = end == std::string_view::npos ? std::string_view{} : words.substr(end + 1);
  }
  return false;
}

std::string SimdLevel(std::string_view flags) {
  if (HasWord(flags, "avx512f") && HasWord(flags, "avx512bw") && HasWord(flags, "avx512dq") &&
      HasWord(flags, "avx512vl")) {
    return HasWord(flags, "avx512_bf16") ? "AVX-512 + BF16" : "AVX-512";
  }
  return HasWord(flags, "avx2") && HasWord(flags, "fma") ? "AVX2" : "portable";
}

}  // namespace

CpuInfo ParseCpuInfo(std::string_view text) {
  CpuInfo info{.name = {}, .simd = "portable", .cores = 0};
  std::string_view socket;
  std::set<std::pair<std::string_view, std::string_view>> cores;  // (socket, core)
  ForEachField(text, [&](std::string_view key, std::string_view value) {
    if (key == "model name" && info.name.empty()) info.name = value;
    if (key == "flags") info.simd = SimdLevel(value);
    if (key == "physical id") socket = value;
    if (key == "core id") cores.emplace(socket, value);
  });
  info.cores = static_cast<int>(cores.size());
  return info;
}

uint64_t ParseMemTotal(std::string_view text) {
  uint64_t kibibytes = 0;
  ForEachField(text, [&](std::string_view key, std::string_view value) {
    if (key == "MemTotal") {
      std::from_chars(value.data(), value.data() + value.size(), kibibytes);
    }
  });
  return kibibytes * 1024;
}

}  // namespace turbolstm
