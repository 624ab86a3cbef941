#pragma once

#include <vector>

#include "ops/pointwise/kernel_cuda.h"

namespace turbolstm::cuda {

// The programs that every built-in cell lowers to, alone and in a classifier, in every precision,
// for inference and training; each once.
std::vector<TypedProgram> CellPrograms();

}  // namespace turbolstm::cuda
