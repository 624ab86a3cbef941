#pragma once

#include "graph/builder.h"

namespace turbolstm {

// Means over rows: sequences of a Batch value, valid steps of a Step value. Static [1], natural
// units; zero where there is no row.

// -log softmax(logits)[label]; logits [classes], label an index of the same domain.
Value CrossEntropyLoss(const Value& logits, const Value& label);
// The mean over elements of (y - target)^2, both [n].
Value MeanSquaredError(const Value& y, const Value& target);

}  // namespace turbolstm
