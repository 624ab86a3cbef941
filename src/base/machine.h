#pragma once

#include <string>

namespace turbolstm {

// What tells machines of different speed apart: the processor's name and the number of its cores
// that this process may use.
std::string MachineName();

}  // namespace turbolstm
