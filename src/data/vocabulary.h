#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/text_sample.h"

namespace turbolstm {

// Tokens and their numbers, 0 to size()-1.
class Vocabulary {
 public:
  static constexpr int32_t kPadding = 0;
  static constexpr int32_t kUnknown = 1;

  // The most frequent tokens of the texts, at most `limit` numbers with <pad> and <unk> (so
  // limit >= 2), the most frequent first; equally frequent ones in order of their bytes.
  static Vocabulary FromTexts(std::span<const TextSample> samples, int64_t limit);

  // One token a line, as ToText prints it. Throws Error naming source and line.
  static Vocabulary FromText(std::string_view text, std::string_view source);
  static Vocabulary Load(const std::filesystem::path& path);
  std::string ToText() const;

  int64_t size() const { return static_cast<int64_t>(tokens_.size()); }
  // kUnknown when absent.
  int32_t Id(std::string_view token) const;
  // Throws Error unless 0 <= id < size().
  const std::string& Token(int32_t id) const;

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };

  Vocabulary();
  bool Add(std::string_view token);

  std::vector<std::string> tokens_;
  std::unordered_map<std::string, int32_t, Hash, std::equal_to<>> ids_;
};

}  // namespace turbolstm
