#include "ops/pointwise/code_cache_cuda.h"

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string_view>
#include <system_error>

#include "base/error.h"

namespace turbolstm::cuda {
namespace {

// FNV-1a, 64 bits.
uint64_t Hash(std::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

std::string_view Text(const std::vector<char>& code) {
  return {code.data(), code.size()};
}

// A first line that tells both sizes and the hash of the code; the key; the code.
std::string Header(const std::string& key, std::string_view code) {
  return fmt::format("turbolstm code {} {} {:016x}\n", key.size(), code.size(), Hash(code));
}

// A name that no other process or thread writes to.
std::filesystem::path PartOf(const std::filesystem::path& file) {
  static std::atomic<int> count{0};
  return fmt::format("{}.{}.{}.part", file.string(), getpid(), count++);
}

}  // namespace

std::filesystem::path CodeCache::DefaultFolder() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::filesystem::path(value ? value : "");
  };
  if (const auto own = variable("TURBOLSTM_CACHE"); !own.empty()) return own;
  if (const auto caches = variable("XDG_CACHE_HOME"); !caches.empty()) return caches / "turbolstm";
  if (const auto home = variable("HOME"); !home.empty()) return home / ".cache" / "turbolstm";
  return {};
}

std::filesystem::path CodeCache::FileOf(const std::string& key) const {
  return folder_ / fmt::format("{:016x}.cubin", Hash(key));
}

std::optional<std::vector<char>> CodeCache::Find(const std::string& key) const {
  if (folder_.empty()) return std::nullopt;
  std::ifstream in(FileOf(key), std::ios::binary);
  if (!in) return std::nullopt;
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  const size_t begin = bytes.find('\n');
  if (begin == std::string::npos) return std::nullopt;
  const std::string_view rest = std::string_view(bytes).substr(begin + 1);
  if (!rest.starts_with(key)) return std::nullopt;  // another key of the same hash, or damaged
  const std::string_view code = rest.substr(key.size());
  if (std::string_view(bytes).substr(0, begin + 1) != Header(key, code)) return std::nullopt;
  return std::vector<char>(code.begin(), code.end());
}

void CodeCache::Store(const std::string& key, const std::vector<char>& code) const {
  if (folder_.empty()) return;
  std::error_code ignored;
  std::filesystem::create_directories(folder_, ignored);
  const std::filesystem::path file = FileOf(key);
  const std::filesystem::path part = PartOf(file);
  std::ofstream out(part, std::ios::binary);
  out << Header(key, Text(code)) << key << Text(code);
  out.close();
  if (out.good()) std::filesystem::rename(part, file, ignored);
  if (!out.good() || ignored) std::filesystem::remove(part, ignored);
}

}  // namespace turbolstm::cuda
