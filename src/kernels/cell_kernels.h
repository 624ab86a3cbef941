#pragma once

namespace turbolstm {

// Makes the kernels of the built-in cells, compiled ahead of time, known to CompilePointwise. To be
// called by a program before it makes its first Executable; without it, and for cells of a user's
// own, programs run in the interpreter, with the same bits but more slowly.
void RegisterCellKernels();

// Likewise for the devices other than the CPU that this build has; without it programs are compiled
// when a graph is first lowered for a device.
void RegisterDeviceCellKernels();

}  // namespace turbolstm
