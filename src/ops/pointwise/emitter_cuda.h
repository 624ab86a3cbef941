#pragma once

#include <span>
#include <string>
#include <string_view>

#include "ops/pointwise/kernel_cuda.h"

namespace turbolstm::cuda {

struct NamedTypedProgram {
  std::string name;  // a C++ identifier, unique among those emitted together
  TypedProgram typed;
};

// The kernels of a program, each with a suffix to its name.
enum class KernelVariant : int {
  kPlain,    // "_plain": rows at fixed distances, one element a thread; "_scan" of a time loop with
             // a scan_input
  kPlain4,   // "_plain4": four elements a thread
  kGeneral,  // "_general": any operand; "_time_loop" for a program with time_loop
};
inline constexpr int kKernelVariants = 3;

// The name of a kernel, or empty if the program has no such variant.
std::string KernelName(const NamedTypedProgram& named, KernelVariant variant);

// Throws Error unless the program is valid and has as many types as inputs and outputs, all of them
// float32, bfloat16 or float16.
void Validate(const TypedProgram& typed);

// One line that says everything, so equal keys mean equal kernels.
std::string KernelKey(const TypedProgram& typed);

// Parts of the source of other kernels that run a program.
// An expression that is exactly this float.
std::string FloatLiteral(float value);
// "Fp32", "Bf16" or "Fp16": the type of the device code that stands for a type in memory.
std::string_view MemoryTypeName(DType dtype);
// The function `<name>_compute` of one element, and what it is called with: the inputs that count
// as x0, x1, ... and the outputs as y0, y1, ...
std::string EmitComputeFunction(const NamedTypedProgram& named);
std::string ComputeArguments(const NamedTypedProgram& named);

// A CUDA source that includes nothing: what a compiler at run time takes.
std::string EmitCudaSource(std::span<const NamedTypedProgram> programs);

// A CUDA source for a build of the project, with a function `void <register_function>()` in
// namespace turbolstm::cuda that hands the kernels to RegisterCudaKernels.
std::string EmitCudaFile(std::span<const NamedTypedProgram> programs,
                         std::string_view register_function);

// Writes that source to `path`: the whole of a generator.
void WriteCudaFile(const std::string& path, std::span<const NamedTypedProgram> programs,
                   std::string_view register_function);

}  // namespace turbolstm::cuda
