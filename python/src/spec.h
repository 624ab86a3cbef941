#pragma once

#include <nanobind/nanobind.h>

#include "turbolstm/recurrent.h"

namespace turbolstm {

// The options of turbolstm.Network by name; what is absent keeps its default. Error: another name.
RecurrentSpec SpecOf(const nanobind::dict& options);

// The kernels of the cells that come with the library.
void RegisterKernelsOnce();

}  // namespace turbolstm
