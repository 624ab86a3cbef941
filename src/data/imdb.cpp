#include "data/imdb.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/read_file.h"
#include "data/utf8.h"

namespace turbolstm {
namespace {

namespace fs = std::filesystem;

struct ReviewFile {
  int64_t id = 0;
  int rating = 0;
  fs::path path;
};

template <typename Integer>
bool ParseInteger(std::string_view text, Integer& value) {
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  return failure == std::errc{} && end == text.data() + text.size();
}

ReviewFile ParseName(const fs::path& path, bool positive) {
  const std::string name = path.stem().string();
  const size_t underscore = name.find('_');
  ReviewFile file{.path = path};
  const bool well_formed = path.extension() == ".txt" && underscore != std::string::npos &&
                           ParseInteger(std::string_view(name).substr(0, underscore), file.id) &&
                           ParseInteger(std::string_view(name).substr(underscore + 1), file.rating);
  TL_CHECK(well_formed, "[{}] is a strange name here, wants <id>_<rating>.txt", path.string());
  const int least = positive ? 7 : 1;
  const int most = positive ? 10 : 4;
  TL_CHECK(file.rating >= least && file.rating <= most,
           "[{}] has rating {}, wants {} to {} in this folder", path.string(), file.rating, least,
           most);
  return file;
}

std::vector<ReviewFile> ListReviews(const fs::path& folder, bool positive) {
  TL_CHECK(fs::is_directory(folder),
           "[{}] is not a folder: give the folder 'aclImdb' of the Large Movie Review Dataset "
           "(https://ai.stanford.edu/~amaas/data/sentiment/), unpacked with 'tar xf'",
           folder.string());
  std::vector<ReviewFile> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const bool hidden = entry.path().filename().string().starts_with('.');
    if (!hidden) files.push_back(ParseName(entry.path(), positive));
  }
  TL_CHECK(!files.empty(), "[{}] has no reviews, wants files <id>_<rating>.txt", folder.string());
  std::sort(files.begin(), files.end(), [](const ReviewFile& a, const ReviewFile& b) {
    return std::pair(a.id, a.rating) < std::pair(b.id, b.rating);
  });
  return files;
}

}  // namespace

std::vector<TextSample> ReadImdb(const fs::path& folder, std::string_view part) {
  std::vector<TextSample> samples;
  for (const bool positive : {false, true}) {
    const fs::path place = fs::path(part) / (positive ? "pos" : "neg");
    for (const ReviewFile& file : ListReviews(folder / place, positive)) {
      std::string text = ReadFile(file.path);
      const auto invalid = FirstInvalidUtf8(text);
      TL_CHECK(!invalid, "[{}:{}] is not UTF-8 at byte {} of the file", file.path.string(),
               1 + std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(*invalid), '\n'),
               *invalid + 1);
      samples.push_back({(place / file.path.stem()).string(), std::move(text), positive ? 1 : 0});
    }
  }
  return samples;
}

}  // namespace turbolstm
