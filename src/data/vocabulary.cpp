#include "data/vocabulary.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/read_file.h"
#include "data/tokenizer.h"
#include "data/utf8.h"

namespace turbolstm {
namespace {

constexpr std::string_view kPaddingToken = "<pad>";
constexpr std::string_view kUnknownToken = "<unk>";

}  // namespace

// No text yields these two: the tokenizer cuts at the angle brackets.
Vocabulary::Vocabulary() {
  Add(kPaddingToken);
  Add(kUnknownToken);
}

bool Vocabulary::Add(std::string_view token) {
  const auto id = static_cast<int32_t>(tokens_.size());
  if (!ids_.emplace(token, id).second) return false;
  tokens_.emplace_back(token);
  return true;
}

Vocabulary Vocabulary::FromTexts(std::span<const TextSample> samples, int64_t limit) {
  TL_CHECK(limit >= 2 && limit <= std::numeric_limits<int32_t>::max(),
           "[vocabulary] limit is {}, wants 2 to {}", limit, std::numeric_limits<int32_t>::max());
  std::unordered_map<std::string, int64_t> counts;
  std::string token;
  for (const TextSample& sample : samples) {
    for (Tokenizer tokenizer(sample.text); tokenizer.Next(token);) ++counts[token];
  }
  using Count = std::pair<int64_t, std::string_view>;
  std::vector<Count> order;
  order.reserve(counts.size());
  for (const auto& [word, count] : counts) order.emplace_back(count, word);
  std::sort(order.begin(), order.end(), [](const Count& a, const Count& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });

  Vocabulary vocabulary;
  for (const auto& [count, word] : order) {
    if (vocabulary.size() == limit) break;
    vocabulary.Add(word);
  }
  return vocabulary;
}

Vocabulary Vocabulary::FromText(std::string_view text, std::string_view source) {
  TL_CHECK(text.empty() || text.ends_with('\n'), "[{}] ends within a line: truncated?", source);
  Vocabulary vocabulary;
  int32_t number = 0;
  while (!text.empty()) {
    const std::string_view token = text.substr(0, text.find('\n'));
    text.remove_prefix(token.size() + 1);
    const std::string place = fmt::format("{}:{}", source, number + 1);
    TL_CHECK(!token.empty() && !FirstInvalidUtf8(token), "[{}] wants one token in UTF-8", place);
    if (number <= kUnknown) {
      TL_CHECK(token == vocabulary.Token(number), "[{}] has '{}', wants '{}'", place, token,
               vocabulary.Token(number));
    } else {
      TL_CHECK(vocabulary.Add(token), "[{}] has token '{}', which an earlier line has", place,
               token);
    }
    ++number;
  }
  TL_CHECK(number > kUnknown, "[{}] has {} lines, wants at least {} and {}", source, number,
           kPaddingToken, kUnknownToken);
  return vocabulary;
}

Vocabulary Vocabulary::Load(const std::filesystem::path& path) {
  return FromText(ReadFile(path), path.string());
}

std::string Vocabulary::ToText() const {
  std::string text;
  for (const std::string& token : tokens_) {
    text += token;
    text += '\n';
  }
  return text;
}

int32_t Vocabulary::Id(std::string_view token) const {
  const auto found = ids_.find(token);
  return found == ids_.end() ? kUnknown : found->second;
}

const std::string& Vocabulary::Token(int32_t id) const {
  TL_CHECK(id >= 0 && id < size(), "[vocabulary] number {} is not in [0, {})", id, size());
  return tokens_[static_cast<size_t>(id)];
}

}  // namespace turbolstm
