#include "data/rated_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <unordered_set>

#include "base/error.h"
#include "base/read_file.h"
#include "data/utf8.h"

namespace turbolstm {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

std::array<std::string_view, 3> SplitColumns(std::string_view line, std::string_view place) {
  const size_t first = line.find('\t');
  const size_t second = first == std::string_view::npos ? first : line.find('\t', first + 1);
  TL_CHECK(
      second != std::string_view::npos && line.find('\t', second + 1) == std::string_view::npos,
      "[{}] has {} columns, wants 3: id, rating and text with a tab between", place,
      1 + std::count(line.begin(), line.end(), '\t'));
  return {line.substr(0, first), line.substr(first + 1, second - first - 1),
          line.substr(second + 1)};
}

double ParseRating(std::string_view text, std::string_view place) {
  double rating = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), rating);
  TL_CHECK(failure == std::errc{} && end == text.data() + text.size() && std::isfinite(rating),
           "[{}] has rating '{}', wants a number", place, text);
  return rating;
}

}  // namespace

std::vector<TextSample> ParseRatedText(std::string_view content, std::string_view source,
                                       double neutral_below) {
  if (content.starts_with(kByteOrderMark)) content.remove_prefix(kByteOrderMark.size());
  std::vector<TextSample> samples;
  std::unordered_set<std::string> ids;
  for (int64_t number = 1; !content.empty(); ++number) {
    const std::string place = fmt::format("{}:{}", source, number);
    const size_t newline = content.find('\n');
    std::string_view line = content.substr(0, newline);
    content.remove_prefix(newline == std::string_view::npos ? content.size() : newline + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);

    const auto invalid = FirstInvalidUtf8(line);
    TL_CHECK(!invalid, "[{}] is not UTF-8 at byte {}", place, invalid.value_or(0) + 1);
    const auto [id, rating_text, text] = SplitColumns(line, place);
    const double rating = ParseRating(rating_text, place);
    TL_CHECK(ids.emplace(id).second, "[{}] has id '{}', which an earlier line has", place, id);
    if (rating == 0 || std::abs(rating) < neutral_below) continue;
    samples.push_back({std::string(id), std::string(text), rating > 0 ? 1 : 0});
  }
  return samples;
}

std::vector<TextSample> ReadRatedText(const std::filesystem::path& path, double neutral_below) {
  return ParseRatedText(ReadFile(path), path.string(), neutral_below);
}

}  // namespace turbolstm
