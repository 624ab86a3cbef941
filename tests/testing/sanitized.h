#pragma once

// 1 in a build whose allocator and memory accesses a sanitizer watches; such tests run many times
// slower.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TL_SANITIZED 1
#else
#define TL_SANITIZED 0
#endif

namespace turbolstm {

// How many of a test's random cases run: a fifth under a sanitizer, which looks at every access of
// each. The first cases go through all kinds that the seed picks.
constexpr int RandomCases(int all) {
  return TL_SANITIZED ? all / 5 : all;
}

}  // namespace turbolstm
