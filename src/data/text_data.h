#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "data/text_sample.h"

namespace turbolstm {

// Which data set to read.
struct TextSource {
  // "snippets": the rated movie-review snippets that scripts/fetch_sentiment.sh gets;
  // "tsv": a file in the same form (see ReadRatedText); "imdb": see ReadImdb.
  std::string kind = "snippets";
  std::filesystem::path path = {};  // empty: kSnippetsPath, for snippets alone
  double neutral_below = 0.5;       // snippets and tsv
  double held_out = 0.1;            // share, snippets and tsv; imdb holds out its test part
  uint64_t seed = 1;                // of the split
};

inline constexpr const char* kSnippetsPath = "data/sentiment/movieReviewSnippets_GroundTruth.txt";

// Reads and splits a set of negative (0) and positive (1) texts. Throws Error naming what is absent
// and how to get it, or the file and line that is wrong.
TextData LoadTextData(const TextSource& source);

}  // namespace turbolstm
