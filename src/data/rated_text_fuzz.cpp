#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "data/rated_text.h"
#include "data/tokenizer.h"
#include "data/utf8.h"
#include "data/vocabulary.h"

// Any bytes can be cut into tokens, and are either a file of samples or an Error, and a vocabulary
// or an Error.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const std::string& token : turbolstm::Tokenize(text)) {
    if (token.empty() || turbolstm::FirstInvalidUtf8(token)) __builtin_trap();
  }
  try {
    for (const auto& sample : turbolstm::ParseRatedText(text, "fuzz", 0.5)) {
      if (turbolstm::FirstInvalidUtf8(sample.text)) __builtin_trap();
    }
  } catch (const turbolstm::Error&) {
  }
  try {
    const auto vocabulary = turbolstm::Vocabulary::FromText(text, "fuzz");
    if (vocabulary.ToText() != text) __builtin_trap();
  } catch (const turbolstm::Error&) {
  }
  return 0;
}
