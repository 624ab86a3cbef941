#pragma once

#include <string>
#include <vector>

#include "data/encoded_texts.h"
#include "data/text_sample.h"
#include "data/vocabulary.h"
#include "train/config.h"

namespace turbolstm {

// A classification task as numbers.
struct TextTask {
  std::vector<std::string> labels;  // names
  Vocabulary vocabulary;
  EncodedTexts train;
  EncodedTexts held_out;
};

// Reads and splits what the config names; errors say what is absent and how to get it.
TextData LoadTextData(const DataConfig& config);

EncodeOptions EncodeOptionsOf(const DataConfig& config);

// The vocabulary is made of the training texts.
TextTask MakeTextTask(const TextData& data, const DataConfig& config);

// Share of the most frequent label, 0 when there are no texts: what guessing always the same gets.
double MajorityShare(const EncodedTexts& texts);
// The number of that label, the least of equally frequent ones.
int32_t MajorityLabel(const EncodedTexts& texts);

}  // namespace turbolstm
