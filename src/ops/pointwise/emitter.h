#pragma once

#include <span>
#include <string>
#include <string_view>

#include "ops/pointwise/program.h"

namespace turbolstm {

struct NamedPointwiseProgram {
  std::string name;  // a C++ identifier, unique among those emitted together
  PointwiseProgram program;
};

// A C++ source with one fused kernel a program, for every CPU target, and a function
// `void <register_function>()` in namespace turbolstm that hands the kernels to
// RegisterPointwiseKernels. `include_path` is the path under which the source finds itself again,
// as Highway includes it once per target. The source is to be compiled with -ffp-contract=off,
// which turbo_pointwise_kernels() in CMake does.
std::string EmitPointwiseSource(std::span<const NamedPointwiseProgram> programs,
                                std::string_view register_function, std::string_view include_path);

// Writes that source to `path`, which is included by its file name. The whole of a generator:
//   int main(int argc, char** argv) { ... WritePointwiseSource(argv[1], programs, "Register...");
void WritePointwiseSource(const std::string& path, std::span<const NamedPointwiseProgram> programs,
                          std::string_view register_function);

}  // namespace turbolstm
