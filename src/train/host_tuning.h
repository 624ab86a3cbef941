#pragma once

#include "plan/executable.h"

namespace turbolstm {

// Measuring for so many seconds a shape, with what is found kept where TURBOLSTM_CACHE and the like
// say, for this CPU and the instructions in use.
TuneOptions HostTuning(double seconds);

}  // namespace turbolstm
