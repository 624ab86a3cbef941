#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace turbolstm {

// What was costly to make, on disk, one file a key. Losing it costs time only: a folder that cannot
// be written and files that are damaged are no errors. Several processes may use a folder.
class FileCache {
 public:
  // TURBOLSTM_CACHE if set, else turbolstm/ in XDG_CACHE_HOME or ~/.cache. Empty if nothing of that
  // is set: then nothing is kept.
  static std::filesystem::path DefaultFolder();

  // kind: what the files hold and their extension, "cubin" or "plan".
  FileCache(std::filesystem::path folder, std::string_view kind)
      : folder_(std::move(folder)), kind_(kind) {}

  // What was stored under exactly this key.
  std::optional<std::vector<char>> Find(const std::string& key) const;
  // Replaces what is there, as a whole or not at all.
  void Store(const std::string& key, const std::vector<char>& bytes) const;

  std::filesystem::path FileOf(const std::string& key) const;

 private:
  std::string Header(const std::string& key, std::string_view bytes) const;

  std::filesystem::path folder_;
  std::string kind_;
};

}  // namespace turbolstm
