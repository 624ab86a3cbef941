// Writes the sources of turbolstm_cell_kernels_cuda: the programs that every built-in cell lowers
// to in every precision.

#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "cells/cell.h"
#include "execution/device_lowering.h"
#include "execution/typed_programs_cuda.h"
#include "kernels/cell_graphs.h"
#include "ops/pointwise/emitter_cuda.h"

namespace turbolstm::cuda {
namespace {

// tf32 has the programs of fp32.
constexpr Precision kPrecisions[] = {Precision::kFloat32, Precision::kBFloat16,
                                     Precision::kFloat16};

std::vector<NamedTypedProgram> AllPrograms() {
  std::set<std::string> known;
  std::vector<NamedTypedProgram> programs;
  for (const Cell& cell : AllCells()) {
    for (const Graph& graph : CellGraphs(cell)) {
      for (const Precision precision : kPrecisions) {
        for (const TypedProgram& typed : TypedProgramsOf(LowerForDevice(graph, precision))) {
          if (!known.insert(KernelKey(typed)).second) continue;
          programs.push_back({fmt::format("{}_{}", cell.name, programs.size()), typed});
        }
      }
    }
  }
  return programs;
}

// Equal shares, each with a function of its own that registers it.
void WriteParts(std::span<char* const> paths) {
  const std::vector<NamedTypedProgram> programs = AllPrograms();
  const size_t parts = paths.size();
  for (size_t part = 0; part < parts; ++part) {
    std::vector<NamedTypedProgram> share;
    for (size_t i = part; i < programs.size(); i += parts) share.push_back(programs[i]);
    WriteCudaFile(paths[part], share, fmt::format("RegisterCellKernelsPart{}", part + 1));
  }
}

}  // namespace
}  // namespace turbolstm::cuda

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: {} FILE...\n", argv[0]);
    return 2;
  }
  turbolstm::cuda::WriteParts(std::span(argv + 1, static_cast<size_t>(argc - 1)));
  return 0;
}
