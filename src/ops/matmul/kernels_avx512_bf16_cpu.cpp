// Micro-kernels for pairs of bf16 numbers. Compiled with AVX512-BF16 switched on where the compiler
// has it (CMakeLists.txt), so nothing here may be inlined elsewhere: no headers with code.
#include "ops/matmul/kernels.h"

#if defined(__AVX512BF16__)

#include <immintrin.h>

namespace turbolstm {
namespace {

struct BFloat16PairSimd {
  using Vec = __m512;
  static constexpr int kLanes = 16;
  static constexpr int kRegisters = 32;

  static Vec Zero() { return _mm512_setzero_ps(); }
  static Vec Load(const float* from) { return _mm512_loadu_ps(from); }
  static void Store(Vec value, float* to) { _mm512_storeu_ps(to, value); }
  static Vec Add(Vec x, Vec y) { return _mm512_add_ps(x, y); }
  static Vec LoadWords(const uint32_t* from) { return _mm512_loadu_ps(from); }
  static Vec BroadcastWord(const uint32_t* from) {
    return _mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int>(*from)));
  }
  static Vec MulAdd(Vec x, Vec y, Vec sum) {
    return _mm512_dpbf16_ps(sum, (__m512bh)_mm512_castps_si512(x),
                            (__m512bh)_mm512_castps_si512(y));
  }
};

#include "ops/matmul/micro_kernel-inl.h"

}  // namespace

bool AddBFloat16MicroKernels(MatMulKernels* kernels) {
  if (!__builtin_cpu_supports("avx512bf16")) return false;
  AddMicroKernels<BFloat16PairSimd, kMaxRows>(kernels);
  return true;
}

}  // namespace turbolstm

#else

namespace turbolstm {

bool AddBFloat16MicroKernels(MatMulKernels*) {
  return false;
}

}  // namespace turbolstm

#endif
