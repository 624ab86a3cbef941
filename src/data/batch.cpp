#include "data/batch.h"

#include <algorithm>

#include "base/error.h"

namespace turbolstm {

Batch MakeBatch(const EncodedTexts& texts, std::span<const int64_t> ids) {
  for (const int64_t id : ids) {
    TL_CHECK(id >= 0 && id < texts.size(), "[batch] sample {} is not in [0, {})", id, texts.size());
  }
  Batch batch;
  batch.sample_ids.assign(ids.begin(), ids.end());
  std::stable_sort(batch.sample_ids.begin(), batch.sample_ids.end(),
                   [&](int64_t a, int64_t b) { return texts.Length(a) > texts.Length(b); });
  batch.B = static_cast<int64_t>(ids.size());
  batch.T = ids.empty() ? 0 : texts.Length(batch.sample_ids.front());
  batch.tokens.assign(static_cast<size_t>(batch.T * batch.B), Vocabulary::kPadding);
  for (int64_t b = 0; b < batch.B; ++b) {
    const int64_t id = batch.sample_ids[static_cast<size_t>(b)];
    int64_t at = b;
    for (const int32_t token : texts.Tokens(id)) {
      batch.tokens[static_cast<size_t>(at)] = token;
      at += batch.B;
    }
    batch.lengths.push_back(static_cast<int32_t>(texts.Length(id)));
    batch.labels.push_back(texts.labels[static_cast<size_t>(id)]);
  }
  return batch;
}

}  // namespace turbolstm
