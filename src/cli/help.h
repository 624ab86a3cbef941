#pragma once

#include <string>

namespace turbolstm::cli {

// Every key of the config with default, range and meaning, for the end of a --help.
std::string ConfigKeysHelp();

}  // namespace turbolstm::cli
