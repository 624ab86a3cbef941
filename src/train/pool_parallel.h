#pragma once

#include "optim/parallel.h"
#include "runtime/stream_pool.h"

namespace turbolstm {

// A loop over the streams of a pool, which must outlive it and not be running.
ParallelFor ParallelOver(StreamPool* pool);

}  // namespace turbolstm
