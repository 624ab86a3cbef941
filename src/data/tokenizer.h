#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace turbolstm {

// Cuts English-like text into lower-case tokens:
//   words        letters and digits of any script; an apostrophe inside belongs to them ("don't")
//   punctuation  a run of one character is one token, cut at three ("...", "!!!")
//   between      blanks, control characters, <br /> in any spelling, bytes that are no UTF-8
// Any bytes are accepted; tokens are valid UTF-8 and never empty.
class Tokenizer {
 public:
  // The text must outlive the tokenizer.
  explicit Tokenizer(std::string_view text) : text_(text) {}

  // Writes the next token; false at the end.
  bool Next(std::string& token);

 private:
  void ReadWord(std::string& token);
  void ReadPunctuation(std::string& token);

  std::string_view text_;
  size_t position_ = 0;
};

std::vector<std::string> Tokenize(std::string_view text);

}  // namespace turbolstm
