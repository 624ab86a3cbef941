#pragma once

#include <list>
#include <map>
#include <string>
#include <vector>

#include "graph/interpreter.h"
#include "plan/executable.h"

namespace turbolstm {

// fp32 against the float64 interpreter, relative to the largest magnitude of the output (at least
// 1), for the short sequences of these tests.
inline constexpr double kFloat32Tolerance = 2e-5;
// The same in bf16, which keeps 8 bits of a weight and of what goes from stage to stage.
inline constexpr double kBFloat16Tolerance = 3e-2;

// Ways of cutting and running that a test goes through, all of them verified.
std::vector<ExecutableOptions> VerifiedPlans();

// Every output of the graph under these bindings, in the caller's layout.
using Outputs = std::map<std::string, std::vector<float>>;
Outputs Execute(const Graph& graph, const Bindings& bindings, const ExecutableOptions& options);

// Sets the shape of bindings and binds everything; the execution must not outlive it.
class BoundBindings {
 public:
  BoundBindings(const Bindings& bindings, Execution* execution);

 private:
  std::list<std::vector<float>> narrow_;
};

// Binds everything and runs once.
void RunOn(Execution* executable, const Bindings& bindings);

// The same, and every output.
Outputs RunAndRead(Execution* executable, const Bindings& bindings);

// What differs beyond the tolerance, relative to the largest magnitude of what is wanted (at least
// 1); empty when nothing does.
std::string Difference(const std::string& name, const std::vector<double>& wanted,
                       const std::vector<float>& got, double tolerance);

// What differs from the interpreter beyond the tolerance, a line each; empty when nothing does.
std::string Differences(const Graph& graph, const Bindings& bindings, const Outputs& outputs,
                        double tolerance);

// The graph with the gradients of the sum of its outputs, times given cotangents
// ("cotangent.<output>"), for every float input and parameter, as outputs "d.<name>". A suffix
// behind "cotangent" and "d" tells the gradients of gradients apart.
Graph WithGradients(const Graph& graph, const std::string& suffix = "");

// Whether executables that are made from now on run the pointwise code of cells compiled ahead of
// time, or interpret it; the graph tells which code is meant.
enum class CellKernels : uint8_t { kInterpreted, kCompiled };
void Choose(CellKernels kernels, const Graph& graph);
// How many pointwise stages of the graph's loops run code compiled ahead of time.
int CompiledLoopStages(const Executable& executable);

}  // namespace turbolstm
