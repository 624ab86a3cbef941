#pragma once

#include <string>
#include <string_view>

#include "graph/graph.h"

namespace turbolstm {

// The text form of a graph, one statement a line:
//
//   # An LSTM's forget gate.
//   input x: step[5]
//   index ids: step
//   parameter w: static[6, 5]
//   input h0: batch[6]
//   %4: step[6] = matmul(w, x)
//   f: step[6] = sigmoid(%6)
//   %6: step[6] = add(%4, h@1(init=h0, zoneout=0.1))
//   h: step[6] = mul(f, %4) reverse
//   %8: step[2] = slice(h) begin=0 size=2
//   output y = h
//
// A node is called by its name or, without one, by %number; calls may precede the node. An operand
// is a call, @delay, and in parentheses what the edge carries: init=, zoneout=, dropout=, adjoint.
// Behind a statement come the attributes that are not their default (number=, scale=, mean=,
// begin=, size=, site=, domain=) and `reverse` for a node that walks that way. Names other than
// [A-Za-z_][A-Za-z0-9_.]* stand in double quotes.

// ParseGraph(PrintGraph(graph)) is the same graph, node for node.
std::string PrintGraph(const Graph& graph);

// `file` is what errors call the text: "[file] line 3, column 7: got 'x', wants ':'". Throws Error
// for whatever is not a graph of known operators with the declared shapes. Sizes are limited:
// kLargestAxis a feature axis, kMostElements a value, kLargestDelay a delay.
Graph ParseGraph(std::string_view text, std::string_view file = "graph");

inline constexpr int64_t kLargestAxis = int64_t{1} << 31;
inline constexpr int64_t kMostElements = int64_t{1} << 40;
inline constexpr int64_t kLargestDelay = int64_t{1} << 20;

}  // namespace turbolstm
