#pragma once

#include <cstdint>
#include <string_view>

#include "plan/lowered.h"
#include "plan/row_layout.h"

namespace turbolstm {

// Elements of a value in the caller's layout.
int64_t ElementsOf(const NamedView& value, int64_t steps, int64_t batch);

// The input or parameter of this name. Error: there is none, or it holds indices where numbers are
// wanted, or the other way round.
const NamedView& InputNamed(const LoweredGraph& graph, std::string_view name, bool index);

// Error: there is no such output.
const NamedView& OutputNamed(const LoweredGraph& graph, std::string_view name);
// What the value is kept in.
DType TypeOf(const LoweredGraph& graph, const NamedView& value);

// Error naming the value unless it has as many elements as the shape wants.
void CheckElements(const NamedView& value, int64_t elements, int64_t steps, int64_t batch);

// Calls visit(place, row) for every valid row: row of the caller's [T, B] or [B] layout, and step
// and place among the sequences, longest first.
template <typename Visit>
void ForEachValidRow(const RowLayout& layout, Domain domain, Visit visit) {
  const int64_t steps = domain == Domain::kStep ? layout.steps() : 1;
  for (int64_t t = 0; t < steps; ++t) {
    const int64_t count = domain == Domain::kStep ? layout.count(t) : layout.batch();
    for (int64_t place = 0; place < count; ++place) {
      visit(t, place, t * layout.batch() + layout.sequence(place));
    }
  }
}

}  // namespace turbolstm
