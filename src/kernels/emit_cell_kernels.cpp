// Writes the source of turbolstm_cell_kernels: the programs that the loops of every built-in cell
// lower to, for inference and for training, alone and under another layer.

#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "cells/cell.h"
#include "graph/autodiff.h"
#include "nn/recurrent.h"
#include "ops/pointwise/emitter.h"
#include "plan/executable.h"

namespace turbolstm {
namespace {

// Sizes do not show in programs, but for widths that must differ from 1 and from each other.
Graph CellGraph(const Cell& cell, int64_t layers, bool training) {
  Model model;
  const Value x = model.builder().Input("x", Domain::kStep, {8});
  RecurrentOptions options;
  options.cell = std::string(cell.name);
  options.size.input = 8;
  options.size.hidden = 16;
  options.size.projection = cell.projects ? 4 : 0;
  options.size.heads = 2;
  options.layers = layers;
  const Value y = Recurrent(model, "rnn", x, options).output;
  model.graph().AddOutput("y", y.id());
  if (!training) return model.graph();
  const Value dy = model.builder().Input("dy", Domain::kStep, {y.features()});
  std::vector<NodeId> wrt;
  for (const ParameterSpec& spec : model.parameters()) {
    wrt.push_back(model.graph().Find(spec.name));
  }
  const std::vector<NodeId> gradients = Gradients(&model.graph(), {{y.id(), dy.id()}}, wrt);
  for (size_t i = 0; i < wrt.size(); ++i) {
    model.graph().AddOutput("gradient." + model.parameters()[i].name, gradients[i]);
  }
  return model.graph();
}

void CollectPrograms(const Cell& cell, int64_t layers, bool training, std::set<std::string>* known,
                     std::vector<NamedPointwiseProgram>* programs) {
  const Executable executable(CellGraph(cell, layers, training), {.streams = 1});
  for (const Group& group : executable.lowered().groups) {
    if (!group.is_loop()) continue;
    for (const Stage& stage : group.stages) {
      if (stage.kind != Stage::Kind::kPointwise) continue;
      if (!known->insert(stage.program.Text()).second) continue;
      programs->push_back({fmt::format("{}_{}", cell.name, programs->size()), stage.program});
    }
  }
}

std::vector<NamedPointwiseProgram> AllPrograms() {
  std::set<std::string> known;
  std::vector<NamedPointwiseProgram> programs;
  for (const Cell& cell : AllCells()) {
    for (const int64_t layers : {1, 2}) {
      for (const bool training : {false, true}) {
        CollectPrograms(cell, layers, training, &known, &programs);
      }
    }
  }
  return programs;
}

}  // namespace
}  // namespace turbolstm

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: {} FILE\n", argv[0]);
    return 2;
  }
  turbolstm::WritePointwiseSource(argv[1], turbolstm::AllPrograms(), "RegisterCellKernels");
  return 0;
}
