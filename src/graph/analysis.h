#pragma once

#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace turbolstm {

// What a strongly connected component of the graph allows (Hwang & Sung, arXiv 1503.02852).
enum class RegionKind : uint8_t {
  kHoisted,        // made of parameters only: runs once a call
  kTimeParallel,   // no cycle: all steps at once
  kScan,           // a cycle linear in its state with coefficients that do not depend on it
  kPointwiseLoop,  // a cycle without a matrix product
  kGemmLoop,       // a cycle with matrix products
};

std::string_view Name(RegionKind kind);

struct Region {
  RegionKind kind = RegionKind::kTimeParallel;
  Direction direction = Direction::kForward;
  // Dependent matrix products within one step.
  int levels = 0;
  // In an order that honours every edge without delay.
  std::vector<NodeId> nodes;

  bool is_loop() const { return kind >= RegionKind::kScan; }
};

struct Analysis {
  std::vector<Region> regions;     // topological: a region reads from itself and from earlier ones
  std::vector<int32_t> region_of;  // by node
};

// Verifies the graph and splits it into regions. Throws Error naming
//   the nodes of a cycle without delay, or with two directions, or through an operator that needs
//   all steps at once; a state that is never defined; operands of the wrong shape.
Analysis Analyse(const Graph& graph);

}  // namespace turbolstm
