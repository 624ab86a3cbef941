#pragma once

#include <set>

#include "plan/lowered.h"

namespace turbolstm {

// The outer products whose first operand is zero at the rows of padded steps when they run, on a
// device where only products leave anything else there: those rows add nothing to their sums.
std::set<const Stage*> SumsWithZeroPadding(const LoweredGraph& graph);

}  // namespace turbolstm
