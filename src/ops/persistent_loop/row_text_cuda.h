#pragma once

#include <string>
#include <string_view>

#include "ops/persistent_loop/loop_step_cuda.h"

// How the text of a loop's kernel finds rows, at step t of the element `at`.
namespace turbolstm::cuda {

// The number of the row of sequence b at a step.
std::string RowNumberText(const LoopRows& rows, std::string_view b, std::string_view t);
// Whether there is a step that a delay of one reads.
std::string HasPastText(const LoopRows& rows);
// The initial value's row of args.in[input], or nullptr.
std::string InitText(const LoopRows& rows, size_t input);
// Where the row of args.in[input] lies at a valid element; nullptr: zeros. past: HasPastText, or
// what stands for it.
std::string AddressText(const LoopRows& rows, size_t input, std::string_view past);

}  // namespace turbolstm::cuda
