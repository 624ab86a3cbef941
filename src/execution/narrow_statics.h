#pragma once

#include <vector>

#include "plan/lowered.h"

namespace turbolstm {

// Static values of which a stage of a 16-bit graph reads a copy in 16 bits: the weights of a
// product with rows, and its bias where the result is of 16 bits.
std::vector<View> NarrowStaticsOf(const LoweredGraph& graph, const Stage& stage);

// How the copy of one lies: rows of `columns` elements, `stride` elements apart.
struct NarrowRows {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t stride = 0;
};
NarrowRows NarrowRowsOf(const LoweredGraph& graph, const View& view);

// Those of all stages, in the order in which groups come upon them.
std::vector<View> NarrowStaticsOf(const LoweredGraph& graph);

}  // namespace turbolstm
