#pragma once

#include <string>
#include <vector>

#include "cells/parameter_spec.h"
#include "graph/builder.h"

namespace turbolstm {

// A graph under construction with the parameters that it has got so far. Layers are functions that
// add to it. Not copyable: values point to its builder.
class Model {
 public:
  Model() : builder_(&graph_) {}
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  Graph& graph() { return graph_; }
  const Graph& graph() const { return graph_; }
  Builder& builder() { return builder_; }

  Value Parameter(std::string name, std::vector<int64_t> shape, Initializer init);
  // Notes parameters that are in the graph already; one that is known is left alone.
  void Note(const std::vector<ParameterSpec>& specs);
  // In the order of their making, each once.
  const std::vector<ParameterSpec>& parameters() const { return parameters_; }

 private:
  Graph graph_;
  Builder builder_;
  std::vector<ParameterSpec> parameters_;
};

}  // namespace turbolstm
