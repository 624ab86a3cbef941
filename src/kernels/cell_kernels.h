#pragma once

namespace turbolstm {

// Makes the kernels of the built-in cells, compiled ahead of time, known to CompilePointwise. To be
// called by a program before it makes its first Executable; without it, and for cells of a user's
// own, programs run in the interpreter, with the same bits but more slowly.
void RegisterCellKernels();

}  // namespace turbolstm
