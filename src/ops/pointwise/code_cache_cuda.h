#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace turbolstm::cuda {

// Machine code on disk, one file a key. Losing it costs time only: a folder that cannot be written
// and files that are damaged are no errors.
class CodeCache {
 public:
  // TURBOLSTM_CACHE if set, else turbolstm/ in XDG_CACHE_HOME or ~/.cache. Empty if nothing of that
  // is set: then nothing is kept.
  static std::filesystem::path DefaultFolder();

  explicit CodeCache(std::filesystem::path folder) : folder_(std::move(folder)) {}

  // What was stored under exactly this key.
  std::optional<std::vector<char>> Find(const std::string& key) const;
  // Replaces what is there, as a whole or not at all.
  void Store(const std::string& key, const std::vector<char>& code) const;

  std::filesystem::path FileOf(const std::string& key) const;

 private:
  std::filesystem::path folder_;
};

}  // namespace turbolstm::cuda
