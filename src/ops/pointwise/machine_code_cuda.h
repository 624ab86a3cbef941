#pragma once

#include <string>
#include <vector>

namespace turbolstm::cuda {

// Of the current device: 90 for compute capability 9.0.
int CurrentCapability();

// A CUDA source compiled for an architecture such as "sm_90": from the cache on disk, or compiled
// now and put there. Error with the compiler's log, or naming what was looked for when there is no
// compiler.
std::vector<char> MachineCode(const std::string& source, const std::string& architecture);

}  // namespace turbolstm::cuda
