// Writes the source of the kernels that the tests and benchmarks compile ahead of time.

#include <cstdio>
#include <exception>
#include <vector>

#include "base/error.h"
#include "ops/pointwise/emitter.h"
#include "ops/pointwise/testing/sample_programs.h"

namespace turbolstm {
namespace {

void EmitSamples(const char* path) {
  std::vector<NamedPointwiseProgram> programs;
  for (const SampleProgram& sample : AheadOfTimeSamples()) {
    programs.push_back({fmt::format("Sample{}", programs.size()), sample.program});
  }
  WritePointwiseSource(path, programs, "RegisterSampleKernels");
}

}  // namespace
}  // namespace turbolstm

int main(int argc, char** argv) {
  try {
    TL_CHECK(argc == 2, "[emit_samples] got {} arguments, wants the path to write", argc - 1);
    turbolstm::EmitSamples(argv[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
