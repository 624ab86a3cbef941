#pragma once

#include <string>

namespace turbolstm {

// Major, minor, patch: "0.1.0".
std::string Version();

}  // namespace turbolstm
