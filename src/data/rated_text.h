#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "data/text_sample.h"

namespace turbolstm {

// Reads lines "id <tab> rating <tab> text" (UTF-8, LF or CR LF). The label is the sign of the
// rating: 0 negative, 1 positive. Lines whose rating is 0 or closer to 0 than `neutral_below` are
// left out: raters disagree there. Throws Error naming file, line, what came and what was wanted.
std::vector<TextSample> ReadRatedText(const std::filesystem::path& path, double neutral_below);

// The same from memory; `source` stands for the file in errors.
std::vector<TextSample> ParseRatedText(std::string_view content, std::string_view source,
                                       double neutral_below);

}  // namespace turbolstm
