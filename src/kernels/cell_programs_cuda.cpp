#include "kernels/cell_programs_cuda.h"

#include <set>
#include <string>
#include <utility>

#include "cells/cell.h"
#include "execution/device_lowering.h"
#include "execution/typed_programs_cuda.h"
#include "kernels/cell_graphs.h"
#include "ops/pointwise/emitter_cuda.h"

namespace turbolstm::cuda {
namespace {

// tf32 and bf16x6 have the programs of fp32.
constexpr Precision kWithPrograms[] = {Precision::kFloat32, Precision::kBFloat16,
                                       Precision::kFloat16};

}  // namespace

std::vector<TypedProgram> CellPrograms() {
  std::set<std::string> known;
  std::vector<TypedProgram> programs;
  for (const Cell& cell : AllCells()) {
    std::vector<Graph> graphs = CellGraphs(cell);
    for (Graph& graph : ClassifierGraphs(cell)) graphs.push_back(std::move(graph));
    for (const Graph& graph : graphs) {
      for (const Precision precision : kWithPrograms) {
        for (const TypedProgram& typed : TypedProgramsOf(LowerForDevice(graph, precision))) {
          if (known.insert(KernelKey(typed)).second) programs.push_back(typed);
        }
      }
    }
  }
  return programs;
}

}  // namespace turbolstm::cuda
