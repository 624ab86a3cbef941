#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace turbolstm {

// One labelled text as a reader found it.
struct TextSample {
  std::string id;  // where it came from, unique within its data set
  std::string text;
  int32_t label = 0;  // an index of TextData::labels

  bool operator==(const TextSample&) const = default;
};

// A data set for classification, already split.
struct TextData {
  std::vector<std::string> labels;  // names
  std::vector<TextSample> train;
  std::vector<TextSample> held_out;
};

}  // namespace turbolstm
