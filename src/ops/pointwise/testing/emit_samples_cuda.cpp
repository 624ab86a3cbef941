// Writes the source of the CUDA kernels that the tests compile ahead of time.

#include <cstdio>
#include <exception>
#include <vector>

#include "base/error.h"
#include "ops/pointwise/emitter_cuda.h"
#include "ops/pointwise/testing/typed_samples_cuda.h"

namespace turbolstm::cuda {
namespace {

void EmitSamples(const char* path) {
  std::vector<NamedTypedProgram> programs;
  for (const TypedProgram& typed : AheadOfTimeTypedSamples()) {
    programs.push_back({fmt::format("sample{}", programs.size()), typed});
  }
  WriteCudaFile(path, programs, "RegisterSampleCudaKernels");
}

}  // namespace
}  // namespace turbolstm::cuda

int main(int argc, char** argv) {
  try {
    TL_CHECK(argc == 2, "[emit_samples] got {} arguments, wants the path to write", argc - 1);
    turbolstm::cuda::EmitSamples(argv[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
