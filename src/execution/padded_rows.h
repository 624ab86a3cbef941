#pragma once

#include "plan/lowered.h"

namespace turbolstm {

// Rows of device memory begin at multiples of so many bytes where products and loops read them.
inline constexpr int64_t kRowAlignment = 16;

// Elements from row to row of a matrix of so many columns that is copied for products.
int64_t PaddedColumns(int64_t columns, DType dtype);

// Widens the buffers of Step and Batch values that nobody outside sees, so that all of their rows
// begin at multiples of kRowAlignment: what is behind the columns of their views is never read.
void PadRows(LoweredGraph* graph);

}  // namespace turbolstm
