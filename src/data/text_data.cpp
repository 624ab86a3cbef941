#include "data/text_data.h"

#include "base/error.h"
#include "data/imdb.h"
#include "data/rated_text.h"
#include "data/shuffle.h"

namespace turbolstm {
namespace {

std::vector<TextSample> Pick(std::vector<TextSample>& samples,
                             const std::vector<int64_t>& indices) {
  std::vector<TextSample> picked;
  picked.reserve(indices.size());
  for (const int64_t i : indices) picked.push_back(std::move(samples[static_cast<size_t>(i)]));
  return picked;
}

std::filesystem::path RatedTextPath(const TextSource& source) {
  if (source.kind == "snippets") {
    const std::filesystem::path path = source.path.empty() ? kSnippetsPath : source.path;
    TL_CHECK(std::filesystem::exists(path),
             "[data] {} is absent: run scripts/fetch_sentiment.sh in the project's folder, or set "
             "data.path to the file",
             path.string());
    return path;
  }
  TL_CHECK(!source.path.empty(),
           "[data] kind 'tsv' wants data.path, a file of lines "
           "'id<tab>rating<tab>text'");
  return source.path;
}

}  // namespace

TextData LoadTextData(const TextSource& source) {
  TextData data{.labels = {"negative", "positive"}, .train = {}, .held_out = {}};
  if (source.kind == "imdb") {
    TL_CHECK(!source.path.empty(),
             "[data] kind 'imdb' wants data.path, the folder 'aclImdb' of the Large Movie Review "
             "Dataset (https://ai.stanford.edu/~amaas/data/sentiment/), unpacked");
    data.train = ReadImdb(source.path, "train");
    data.held_out = ReadImdb(source.path, "test");
    return data;
  }
  TL_CHECK(source.kind == "snippets" || source.kind == "tsv",
           "[data] kind is '{}', wants snippets, tsv or imdb", source.kind);
  const std::filesystem::path path = RatedTextPath(source);
  std::vector<TextSample> samples = ReadRatedText(path, source.neutral_below);
  TL_CHECK(!samples.empty(), "[data] {} has no line with a rating of at least {} from 0",
           path.string(), source.neutral_below);
  const HeldOutSplit split =
      SplitHeldOut(static_cast<int64_t>(samples.size()), source.held_out, source.seed);
  data.train = Pick(samples, split.train);
  data.held_out = Pick(samples, split.held_out);
  return data;
}

}  // namespace turbolstm
