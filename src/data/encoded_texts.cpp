#include "data/encoded_texts.h"

#include "base/error.h"
#include "data/tokenizer.h"

namespace turbolstm {

std::vector<int32_t> EncodeText(std::string_view text, const Vocabulary& vocabulary,
                                const EncodeOptions& options) {
  TL_CHECK(options.max_length >= 1, "[encode] max_length is {}, wants at least 1",
           options.max_length);
  const auto max_length = static_cast<size_t>(options.max_length);
  std::vector<int32_t> ids;
  std::string token;
  for (Tokenizer tokenizer(text); tokenizer.Next(token);) {
    if (options.keep == KeepEnd::kHead && ids.size() == max_length) break;
    ids.push_back(vocabulary.Id(token));
  }
  if (ids.size() > max_length) {
    ids.erase(ids.begin(), ids.end() - static_cast<ptrdiff_t>(max_length));
  }
  return ids;
}

std::span<const int32_t> EncodedTexts::Tokens(int64_t i) const {
  return std::span(tokens).subspan(static_cast<size_t>(offsets[static_cast<size_t>(i)]),
                                   static_cast<size_t>(Length(i)));
}

std::vector<int64_t> EncodedTexts::Lengths() const {
  std::vector<int64_t> lengths(labels.size());
  for (size_t i = 0; i < lengths.size(); ++i) lengths[i] = Length(static_cast<int64_t>(i));
  return lengths;
}

EncodedTexts EncodeTexts(std::span<const TextSample> samples, const Vocabulary& vocabulary,
                         const EncodeOptions& options) {
  EncodedTexts encoded;
  for (const TextSample& sample : samples) {
    const std::vector<int32_t> ids = EncodeText(sample.text, vocabulary, options);
    encoded.tokens.insert(encoded.tokens.end(), ids.begin(), ids.end());
    encoded.offsets.push_back(static_cast<int64_t>(encoded.tokens.size()));
    encoded.labels.push_back(sample.label);
  }
  return encoded;
}

}  // namespace turbolstm
