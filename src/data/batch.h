#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/encoded_texts.h"

namespace turbolstm {

// B texts side by side, the longest first (equally long ones in the order given). T is the longest
// length; shorter rows end in Vocabulary::kPadding.
struct Batch {
  int64_t T = 0;
  int64_t B = 0;
  std::vector<int32_t> tokens;      // [T, B], time-major
  std::vector<int32_t> lengths;     // [B], descending, each in [0, T]
  std::vector<int32_t> labels;      // [B]
  std::vector<int64_t> sample_ids;  // [B], indices into the texts
};

// Throws Error when an id is not in [0, texts.size()).
Batch MakeBatch(const EncodedTexts& texts, std::span<const int64_t> ids);

}  // namespace turbolstm
