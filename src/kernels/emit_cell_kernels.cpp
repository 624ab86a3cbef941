// Writes the source of turbolstm_cell_kernels: the programs that the loops of every built-in cell
// lower to.

#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "cells/cell.h"
#include "kernels/cell_graphs.h"
#include "ops/pointwise/emitter.h"
#include "plan/executable.h"

namespace turbolstm {
namespace {

void CollectPrograms(const Cell& cell, std::set<std::string>* known,
                     std::vector<NamedPointwiseProgram>* programs) {
  const auto collect = [&](const Graph& graph, bool recompute) {
    const Executable executable(graph, {.streams = 1, .recompute = recompute});
    for (const Group& group : executable.lowered().groups) {
      if (!group.is_loop()) continue;
      for (const Stage& stage : group.stages) {
        if (stage.kind != Stage::Kind::kPointwise) continue;
        if (!known->insert(stage.program.Text()).second) continue;
        programs->push_back({fmt::format("{}_{}", cell.name, programs->size()), stage.program});
      }
    }
  };
  for (const Graph& graph : CellGraphs(cell)) {
    for (const bool recompute : {false, true}) collect(graph, recompute);
  }
}

std::vector<NamedPointwiseProgram> AllPrograms() {
  std::set<std::string> known;
  std::vector<NamedPointwiseProgram> programs;
  for (const Cell& cell : AllCells()) CollectPrograms(cell, &known, &programs);
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
