#include "base/file_cache.h"

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string_view>
#include <system_error>

#include "base/error.h"

namespace turbolstm {
namespace {

// FNV-1a, 64 bits.
uint64_t Hash(std::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

std::string_view Text(const std::vector<char>& bytes) {
  return {bytes.data(), bytes.size()};
}

// A name that no other process or thread writes to.
std::filesystem::path PartOf(const std::filesystem::path& file) {
  static std::atomic<int> count{0};
  return fmt::format("{}.{}.{}.part", file.string(), getpid(), count++);
}

}  // namespace

std::filesystem::path FileCache::DefaultFolder() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::filesystem::path(value ? value : "");
  };
  if (const auto own = variable("TURBOLSTM_CACHE"); !own.empty()) return own;
  if (const auto caches = variable("XDG_CACHE_HOME"); !caches.empty()) return caches / "turbolstm";
  if (const auto home = variable("HOME"); !home.empty()) return home / ".cache" / "turbolstm";
  return {};
}

// A first line that tells both sizes and the hash of the bytes; the key; the bytes.
std::string FileCache::Header(const std::string& key, std::string_view bytes) const {
  return fmt::format("turbolstm {} {} {} {:016x}\n", kind_, key.size(), bytes.size(), Hash(bytes));
}

std::filesystem::path FileCache::FileOf(const std::string& key) const {
  return folder_ / fmt::format("{:016x}.{}", Hash(key), kind_);
}

std::optional<std::vector<char>> FileCache::Find(const std::string& key) const {
  if (folder_.empty()) return std::nullopt;
  std::ifstream in(FileOf(key), std::ios::binary);
  if (!in) return std::nullopt;
  const std::string file{std::istreambuf_iterator<char>(in), {}};
  const size_t begin = file.find('\n');
  if (begin == std::string::npos) return std::nullopt;
  const std::string_view rest = std::string_view(file).substr(begin + 1);
  if (!rest.starts_with(key)) return std::nullopt;  // another key of the same hash, or damaged
  const std::string_view bytes = rest.substr(key.size());
  if (std::string_view(file).substr(0, begin + 1) != Header(key, bytes)) return std::nullopt;
  return std::vector<char>(bytes.begin(), bytes.end());
}

void FileCache::Store(const std::string& key, const std::vector<char>& bytes) const {
  if (folder_.empty()) return;
  std::error_code ignored;
  std::filesystem::create_directories(folder_, ignored);
  const std::filesystem::path file = FileOf(key);
  const std::filesystem::path part = PartOf(file);
  std::ofstream out(part, std::ios::binary);
  out << Header(key, Text(bytes)) << key << Text(bytes);
  out.close();
  if (out.good()) std::filesystem::rename(part, file, ignored);
  if (!out.good() || ignored) std::filesystem::remove(part, ignored);
}

}  // namespace turbolstm
