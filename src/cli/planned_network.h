#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "train/config.h"

namespace turbolstm::cli {

// What 'turbolstm plan' is to look at.
struct NetworkRequest {
  std::string config;                  // a file; empty: recurrent layers alone
  std::vector<std::string> overrides;  // section.key=value
  std::string cell;
  int64_t input = 128;
  int64_t hidden = 128;
  int64_t projection = 0;
  int64_t layers = 1;
  bool bidirectional = false;
  bool inference = false;  // forward only
  // A second network beside the one of --cell: "cell", "cell:hidden" or "cell:hidden:layers".
  std::string beside;
  std::string precision = "fp32";
};

struct PlannedNetwork {
  Graph graph;  // with the gradients of all parameters unless for inference
  std::string description;
  std::string precision;
  bool recompute = false;  // a config says so
};

// Throws Error for a config or sizes that describe no network.
PlannedNetwork BuildNetwork(const NetworkRequest& request);

}  // namespace turbolstm::cli
