#pragma once

#include <vector>

#include "cells/cell.h"
#include "graph/graph.h"

namespace turbolstm {

// Graphs whose lowering has the programs of a cell: for inference and for training, alone and under
// another layer. Sizes do not show in programs, but for widths that must differ from 1 and from
// each other.
std::vector<Graph> CellGraphs(const Cell& cell);

// Likewise of classifiers with layers of the cell, with every pooling; with the gradients of all
// parameters or without.
std::vector<Graph> ClassifierGraphs(const Cell& cell);

}  // namespace turbolstm
