#include "ops/cpu_target.h"

#include <hwy/detect_targets.h>
#include <hwy/targets.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>

#include "base/error.h"

namespace turbolstm {
namespace {

#if HWY_ARCH_X86
// Highway gives better targets lower bits, so a cap removes the bits below its own.
int64_t AllowedBits(CpuTarget cap) {
  switch (cap) {
    case CpuTarget::kPortable:
      return 0;
    case CpuTarget::kAvx2:
      return ~(int64_t{HWY_AVX2} - 1);
    case CpuTarget::kAvx512:
      break;
  }
  return ~int64_t{0};
}
#else
int64_t AllowedBits(CpuTarget cap) {
  return cap == CpuTarget::kPortable ? 0 : ~int64_t{0};
}
#endif

CpuTarget Highest() {
  return AvailableCpuTargets().back();
}

CpuTarget& Current() {
  static CpuTarget current = Highest();
  return current;
}

CpuTarget FromEnvironment() {
  const char* value = std::getenv("TURBOLSTM_CPU");
  if (value == nullptr || *value == '\0') return Highest();
  for (CpuTarget target : {CpuTarget::kPortable, CpuTarget::kAvx2, CpuTarget::kAvx512}) {
    if (Name(target) == value) return std::min(target, Highest());
  }
  Fail("[TURBOLSTM_CPU] got \"{}\", wants portable, avx2 or avx512", value);
}

}  // namespace

std::string_view Name(CpuTarget target) {
  switch (target) {
    case CpuTarget::kPortable:
      return "portable";
    case CpuTarget::kAvx2:
      return "avx2";
    case CpuTarget::kAvx512:
      break;
  }
  return "avx512";
}

std::vector<CpuTarget> AvailableCpuTargets() {
  std::vector<CpuTarget> targets{CpuTarget::kPortable};
#if HWY_ARCH_X86
  if (hwy::SupportedTargets() & HWY_AVX2) targets.push_back(CpuTarget::kAvx2);
  if (hwy::SupportedTargets() & HWY_AVX3) targets.push_back(CpuTarget::kAvx512);
#else
  targets.push_back(CpuTarget::kAvx512);
#endif
  return targets;
}

void ApplyCpuTargetFromEnvironment() {
  static std::once_flag once;
  std::call_once(once, [] { SetCpuTarget(FromEnvironment()); });
}

CpuTarget CurrentCpuTarget() {
  return Current();
}

void SetCpuTarget(CpuTarget target) {
  Current() = std::min(target, Highest());
  hwy::GetChosenTarget().Update(hwy::SupportedTargets() & AllowedBits(target));
}

}  // namespace turbolstm
