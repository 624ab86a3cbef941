#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "data/text_sample.h"
#include "data/vocabulary.h"

namespace turbolstm {

enum class KeepEnd { kHead, kTail };

// Which tokens of a long text are kept.
struct EncodeOptions {
  int64_t max_length = 400;  // >= 1
  KeepEnd keep = KeepEnd::kHead;
};

// Token numbers of one text; at most max_length, none for a text without tokens.
std::vector<int32_t> EncodeText(std::string_view text, const Vocabulary& vocabulary,
                                const EncodeOptions& options);

// N texts as numbers. Sample i owns tokens [offsets[i], offsets[i + 1]).
struct EncodedTexts {
  std::vector<int32_t> tokens;
  std::vector<int64_t> offsets = {0};  // [N + 1]
  std::vector<int32_t> labels;         // [N]

  int64_t size() const { return static_cast<int64_t>(labels.size()); }
  int64_t Length(int64_t i) const {
    return offsets[static_cast<size_t>(i) + 1] - offsets[static_cast<size_t>(i)];
  }
  std::span<const int32_t> Tokens(int64_t i) const;
  std::vector<int64_t> Lengths() const;  // [N]
};

EncodedTexts EncodeTexts(std::span<const TextSample> samples, const Vocabulary& vocabulary,
                         const EncodeOptions& options);

}  // namespace turbolstm
