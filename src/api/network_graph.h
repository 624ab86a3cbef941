#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cells/parameter_spec.h"
#include "graph/graph.h"
#include "plan/lowered.h"
#include "turbolstm/recurrent.h"

namespace turbolstm {

// The graph of a network, and what callers know of it under short names: "weight_ih_l0" where the
// graph says "rnn.weight_ih_l0".
struct NetworkGraph {
  Graph graph;
  std::vector<ParameterSpec> specs;
  std::vector<ValueInfo> parameters;
  std::vector<StateInfo> states;
  std::vector<std::string> late_inputs;  // "d.<output>": what the backward pass starts from
};

// gradients, cotangents: see CompileOptions. Error: an option the cell does not have or out of its
// range, or an unknown name.
NetworkGraph BuildNetwork(const RecurrentSpec& spec, std::span<const std::string> gradients,
                          std::span<const std::string> cotangents);

// From a caller's name to the graph's.
std::string NameInGraph(const std::string& name);
// As callers know an input or output.
ValueInfo InfoOf(const NamedView& value);

}  // namespace turbolstm
