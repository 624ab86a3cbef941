// Writes the sources of turbolstm_cell_kernels_cuda.

#include <span>
#include <vector>

#include "base/error.h"
#include "kernels/cell_programs_cuda.h"
#include "ops/pointwise/emitter_cuda.h"

namespace turbolstm::cuda {
namespace {

// Equal shares, each with a function of its own that registers it.
void WriteParts(std::span<char* const> paths) {
  const std::vector<TypedProgram> programs = CellPrograms();
  const size_t parts = paths.size();
  for (size_t part = 0; part < parts; ++part) {
    std::vector<NamedTypedProgram> share;
    for (size_t i = part; i < programs.size(); i += parts) {
      share.push_back({fmt::format("cell_{}", i), programs[i]});
    }
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
