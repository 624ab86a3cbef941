#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "data/text_sample.h"

namespace turbolstm {

// Reads `<folder>/<part>/{neg,pos}/<id>_<rating>.txt`, the layout of the Large Movie Review
// Dataset (Maas et al., ACL 2011); part is "train" or "test". Labels: 0 negative (ratings 1 to 4),
// 1 positive (7 to 10). Samples are ordered by label, then id, whatever the file system does.
// Throws Error naming the file or folder, what came and what was wanted; an absent folder comes
// with where to get the data.
std::vector<TextSample> ReadImdb(const std::filesystem::path& folder, std::string_view part);

}  // namespace turbolstm
