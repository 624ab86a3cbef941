#pragma once

#include <string>

#include "nn/model.h"

namespace turbolstm {

// Rows of a table, drawn from the standard normal distribution: index -> [n].
// Parameter: <name>.weight [vocabulary, n].
Value Embedding(Model& model, const std::string& name, const Value& index, int64_t vocabulary,
                int64_t n, const Initializer& init = Initializer::Normal(0.0, 1.0));

// weight x + bias: [k] -> [n]. Parameters: <name>.weight [n, k], <name>.bias [n].
Value Linear(Model& model, const std::string& name, const Value& x, int64_t n, bool bias = true);

// In training zeroes each element with this probability and scales the others by
// 1 / (1 - probability); a probability of 1 zeroes everything. Outside training it is x.
Value Dropout(const Value& x, double probability);

// Over the valid steps of each sequence, Step [n] -> Batch [n]; zero for an empty sequence.
Value MeanOverTime(const Value& x);
Value MaxOverTime(const Value& x);

}  // namespace turbolstm
