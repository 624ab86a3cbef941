// Arguments of phased loops. Like ops/device_rows_cuda.h this text is also what kernels compiled at
// run time begin with.
#pragma once

#include "ops/persistent_loop/device_code_cuda.h"

namespace turbolstm::cuda {

struct PhasedWeights {
  const char* weight = nullptr;
  long long row_stride = 0;    // elements of the weights from column to column of the product
  long long inner_stride = 0;  // from element to element of x
};

// The host writes the same bytes: the fields one after the other, all of whose sizes are multiples
// of 8.
struct PhasedHead {
  GeneralHead general;
  char* exchange = nullptr;  // [groups], of each phase [tiles, kSlots], all absent at the start
  int* fault = nullptr;      // set to -1 when a partner does not answer
  long long first_tile = 0;  // of the sequences of the first group
};

template <int kProducts, int kInputs, int kOutputs>
struct PhasedArgs {
  PhasedHead head;
  PhasedWeights products[kProducts];
  RowOperand in[kInputs];
  RowOutput out[kOutputs];
};

}  // namespace turbolstm::cuda
