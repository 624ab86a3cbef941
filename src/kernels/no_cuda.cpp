#include "kernels/cell_kernels.h"

namespace turbolstm {

void RegisterDeviceCellKernels() {}

}  // namespace turbolstm
