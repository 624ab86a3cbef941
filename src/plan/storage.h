#pragma once

#include <map>
#include <vector>

#include "plan/grouping.h"
#include "plan/lowered.h"
#include "plan/uses.h"

namespace turbolstm {

// Gives every value that must be in memory its place. View.buffer is -1 for values that live in
// registers of a program only.
struct Storage {
  std::vector<Buffer> buffers;
  std::vector<View> view_of;  // by node
  // Further places that a pointwise node writes its value to: parts of concatenations.
  std::map<NodeId, std::vector<View>> mirrors;
};

// Whether values lie in buffers of others that nobody reads any more. Where groups run one after
// the other, memory is rather shared by buffers as a whole.
enum class Reuse : uint8_t { kDeadBuffers, kNone };

Storage AssignStorage(const Graph& graph, const Uses& uses, const Grouping& grouping,
                      Precision precision, Reuse reuse, BoundaryType boundary);

}  // namespace turbolstm
