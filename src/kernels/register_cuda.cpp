#include "kernels/cell_kernels.h"

namespace turbolstm {
namespace cuda {

// Defined in emitted sources.
void RegisterCellKernelsPart1();
void RegisterCellKernelsPart2();
void RegisterCellKernelsPart3();
void RegisterCellKernelsPart4();

}  // namespace cuda

void RegisterDeviceCellKernels() {
  cuda::RegisterCellKernelsPart1();
  cuda::RegisterCellKernelsPart2();
  cuda::RegisterCellKernelsPart3();
  cuda::RegisterCellKernelsPart4();
}

}  // namespace turbolstm
