#pragma once

#include <vector>

#include "plan/lowered.h"
#include "plan/storage.h"
#include "plan/uses.h"

namespace turbolstm {

// The operand of a stage that an edge makes.
Operand OperandOf(const Graph& graph, const Uses& uses, const Storage& storage, const Node& reader,
                  const Edge& edge);

// Fuses pointwise nodes of one shape, given in an order that honours their dependencies, into one
// program: what has memory is read and written there, everything else stays in registers.
Stage FusePointwise(const Graph& graph, const Uses& uses, const Storage& storage,
                    const std::vector<NodeId>& nodes);

// A program that copies an operand to a view.
Stage CopyStage(const Operand& from, const View& to, Domain domain);

}  // namespace turbolstm
