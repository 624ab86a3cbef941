#pragma once

#include <cstdint>
#include <string_view>

#include "graph/graph.h"

namespace turbolstm {

// How a device other than the CPU runs an operator of the graph: which kind of kernel it has.
enum class DeviceKernel : uint8_t {
  kNone,
  kBound,      // memory that the caller fills
  kProduct,    // the vendor's matrix product
  kFused,      // part of a fused kernel with its neighbours
  kRow,        // a kernel over rows
  kSequence,   // a kernel over whole sequences
  kSum,        // a sum over rows, in two passes
  kScatter,    // a sum by index, in a fixed order
  kTranspose,  // of Static values
};
DeviceKernel DeviceKernelOf(Op op);

// "fused kernel" and the like.
std::string_view Name(DeviceKernel kernel);

}  // namespace turbolstm
