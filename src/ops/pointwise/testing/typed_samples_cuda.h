#pragma once

#include <vector>

#include "ops/pointwise/kernel_cuda.h"
#include "ops/pointwise/testing/sample_programs.h"

namespace turbolstm::cuda {

// The program with the three types that a kernel may have in memory dealt out in turns, beginning
// with number `first`.
inline TypedProgram DealTypes(const PointwiseProgram& program, size_t first,
                              bool time_loop = false) {
  constexpr DType kTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};
  TypedProgram typed{.program = program, .inputs = {}, .outputs = {}, .time_loop = time_loop};
  for (size_t i = 0; i < program.inputs.size(); ++i) typed.inputs.push_back(kTypes[first++ % 3]);
  for (size_t i = 0; i < program.outputs.size(); ++i) typed.outputs.push_back(kTypes[first++ % 3]);
  return typed;
}

// What the tests compile ahead of time: the samples of odd numbers, every fourth as a time loop.
inline std::vector<TypedProgram> AheadOfTimeTypedSamples() {
  std::vector<TypedProgram> typed;
  const std::vector<SampleProgram> samples = AheadOfTimeSamples();
  for (size_t i = 1; i < samples.size(); i += 2) {
    typed.push_back(DealTypes(samples[i].program, i, i % 4 == 3));
  }
  return typed;
}

// Emitted from AheadOfTimeTypedSamples at build time.
void RegisterSampleCudaKernels();

}  // namespace turbolstm::cuda
