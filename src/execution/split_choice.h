#pragma once

#include <cstdint>
#include <vector>

#include "ops/matmul/split_product.h"
#include "plan/lowered.h"

namespace turbolstm {

// A product of rows with a weight, or a sum of outer products over rows.
bool IsProduct(const Stage& stage);

// What a product multiplies when it runs over `count` rows.
ProductSize SizeOfProduct(const LoweredGraph& graph, const Stage& stage, int64_t count);

// Whether a product over `count` rows is made of products of pieces: in bf16x6, where the rule says
// so. Products of Static values never are: they run once a call.
bool IsSplitProduct(const LoweredGraph& graph, const Stage& stage, int64_t count, SplitRule rule);

// Groups that take turns, some rows at once, where products of pieces read the same rows of all
// steps: these and sums over rows between them, none of which reads what another writes. By group:
// the number of the group behind those that it is the first of; its own where it is not.
std::vector<size_t> EndsOfSplitRuns(const LoweredGraph& graph);

}  // namespace turbolstm
