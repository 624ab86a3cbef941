#pragma once

#include <cstddef>
#include <cstdint>

namespace turbolstm {

// The place in a vector of a number that is kept in 32 bits with a sign: of a node, buffer or
// group.
constexpr size_t at(int32_t id) {
  return static_cast<size_t>(id);
}

}  // namespace turbolstm
