// Writes the source of the kernels that the tests and benchmarks compile ahead of time.

#include <cstdio>
#include <exception>
#include <vector>

#include "base/error.h"
#include "ops/pointwise/emitter.h"
#include "ops/pointwise/testing/sample_programs.h"

int main(int argc, char** argv) {
  using namespace turbolstm;
  try {
    TL_CHECK(argc == 2, "[emit_samples] got {} arguments, wants the path to write", argc - 1);
    std::vector<NamedPointwiseProgram> programs;
    for (const SampleProgram& sample : AheadOfTimeSamples()) {
      programs.push_back({fmt::format("Sample{}", programs.size()), sample.program});
    }
    WritePointwiseSource(argv[1], programs, "RegisterSampleKernels");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
