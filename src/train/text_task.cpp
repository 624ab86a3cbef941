#include "train/text_task.h"

#include <algorithm>
#include <map>

#include "data/text_data.h"

namespace turbolstm {
namespace {

std::pair<int32_t, int64_t> MostFrequent(const EncodedTexts& texts) {
  std::map<int32_t, int64_t> counts;
  for (const int32_t label : texts.labels) ++counts[label];
  std::pair<int32_t, int64_t> most{0, 0};
  for (const auto& [label, count] : counts) {
    if (count > most.second) most = {label, count};
  }
  return most;
}

}  // namespace

TextData LoadTextData(const DataConfig& config) {
  return LoadTextData(TextSource{.kind = config.kind,
                                 .path = config.path,
                                 .neutral_below = config.neutral_below,
                                 .held_out = config.held_out,
                                 .seed = static_cast<uint64_t>(config.seed)});
}

EncodeOptions EncodeOptionsOf(const DataConfig& config) {
  return {.max_length = config.max_length,
          .keep = config.keep == "tail" ? KeepEnd::kTail : KeepEnd::kHead};
}

TextTask MakeTextTask(const TextData& data, const DataConfig& config) {
  Vocabulary vocabulary = Vocabulary::FromTexts(data.train, config.vocabulary);
  const EncodeOptions options = EncodeOptionsOf(config);
  EncodedTexts train = EncodeTexts(data.train, vocabulary, options);
  EncodedTexts held_out = EncodeTexts(data.held_out, vocabulary, options);
  return {data.labels, std::move(vocabulary), std::move(train), std::move(held_out)};
}

double MajorityShare(const EncodedTexts& texts) {
  if (texts.size() == 0) return 0;
  return static_cast<double>(MostFrequent(texts).second) / static_cast<double>(texts.size());
}

int32_t MajorityLabel(const EncodedTexts& texts) {
  return MostFrequent(texts).first;
}

}  // namespace turbolstm
