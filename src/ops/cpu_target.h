#pragma once

#include <string_view>
#include <vector>

namespace turbolstm {

// The instruction sets that the CPU kernels are compiled for. On other architectures than x86 the
// higher ones stand for the best that is there.
enum class CpuTarget { kPortable, kAvx2, kAvx512 };

// "portable", "avx2", "avx512".
std::string_view Name(CpuTarget target);

// What this machine can run, lowest first. On x86: those the CPU has; elsewhere the lowest and the
// highest of the enumeration.
std::vector<CpuTarget> AvailableCpuTargets();

// Caps the kernels at the target that the environment variable TURBOLSTM_CPU names; the first call
// decides, later ones do nothing. Call it before a Highway dispatch. Throws Error on other names.
void ApplyCpuTargetFromEnvironment();

// The highest target that dispatch may choose now.
CpuTarget CurrentCpuTarget();

// Caps dispatch at `target`; not to be called while kernels run. For tests and benchmarks: function
// pointers that were chosen earlier stay.
void SetCpuTarget(CpuTarget target);

}  // namespace turbolstm
