#pragma once

#include "graph/graph.h"
#include "plan/grouping.h"
#include "plan/storage.h"
#include "plan/uses.h"

namespace turbolstm {

// Puts Step values into buffers whose values nobody reads any more: what reads those runs, at every
// step, before what writes the new ones, because it needs their results. So nothing waits that did
// not wait before. Leaves buffers behind that nothing lies in.
void ReuseDeadBuffers(const Graph& graph, const Uses& uses, const Grouping& grouping,
                      Storage* storage);

}  // namespace turbolstm
