#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ops/pointwise/program.h"

namespace turbolstm {

// How an output of a program follows from one of its inputs, the state, where it is
//   output = a * state + c
// with a and c made of the other inputs alone.
struct AffineOutput {
  std::vector<bool> needed;   // by value: the output depends on it
  std::vector<bool> follows;  // by value: needed, and depends on the state
};

// Nothing if output number `output` is not linear in input number `state`, or does not read it.
std::optional<AffineOutput> FindAffine(const PointwiseProgram& program, size_t state,
                                       size_t output);

}  // namespace turbolstm
