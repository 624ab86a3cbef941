#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "plan/lowered.h"
#include "plan/typed_rows.h"

namespace turbolstm {

struct RunState;

// Where a row of a stage stands.
struct RowPlace {
  int64_t time = 0;      // meaningless in a Batch value
  int64_t row = 0;       // of the batch, as laid out
  int64_t sequence = 0;  // as the caller counts
};

// Evaluates an operator that makes a row of its result from one row of each operand. Error: an
// index outside its table, or an operator that is none of these.
void EvaluateRow(const RunState& state, const Stage& stage, const RowPlace& place,
                 const std::vector<ConstRow>& operands, const MutableRow& result);

// y = softmax(x) over n elements; nothing for n = 0.
void SoftmaxRow(const ConstRow& x, int64_t n, const MutableRow& y);

// The index itself. Error unless it is in [0, size): names the stage and the place.
int32_t CheckedIndex(const Stage& stage, const RowPlace& place, int32_t index, int64_t size);

}  // namespace turbolstm
