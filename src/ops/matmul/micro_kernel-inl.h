// Included once for each instruction set, inside its namespace and under its compiler options.
//
// The idea. One row of B's panel (two vectors) and kRows broadcast numbers of x make 2 * kRows
// fused multiply-adds, all held in registers: with 32 registers 14 rows, so that 14 FMA cycles need
// only 128 bytes of B, which the second and third cache level deliver. Few rows (the recurrent
// product of a small batch) take several panels at a time instead, so that there are always enough
// independent sums to hide the FMA's latency. Rows are dealt out evenly (16 rows are 8 + 8, not 14
// + 2), and any number of rows has a kernel of its own, so nothing is padded. Each sum is one chain
// over the inner dimension in every kernel, hence the same bits.
//
// What it beat (ops_bench, one thread of a Zen 5, 8 to 64 rows, K 128 to 1024, N = 4K): OpenBLAS
// 0.3 by 1.2 to 4 times and oneDNN 2.6 by 1.05 to 3.9 times, most at few rows, where both spend
// their time on packing weights that here stay packed over all steps of time.

// How far ahead of use a panel is fetched into the second-level cache. Measured: weights in the
// third level run up to 1.4 times faster for it, and several panels at once slower.
inline constexpr int64_t kPrefetchRows = kBlockWords / 2;

template <class Simd, int kRows, int kPanels>
void MicroKernelOf(const uint32_t* a, const uint32_t* b, int64_t panel_stride, int64_t words,
                   float* c, int64_t c_stride, const float* bias, bool add) {
  using Vec = typename Simd::Vec;
  constexpr int kVectors = 2 * kPanels;
  constexpr int kPanelColumns = 2 * Simd::kLanes;
  Vec sum[kRows][kVectors];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) sum[i][j] = Simd::Zero();
  }
  if (add) {
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
      for (int j = 0; j < kVectors; ++j) __builtin_prefetch(c + i * c_stride + j * Simd::kLanes, 1);
    }
  }
  for (int64_t w = 0; w < words; ++w) {
    Vec right[kVectors];
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) {
      right[j] = Simd::LoadWords(b + (j / 2) * panel_stride + (j % 2) * Simd::kLanes);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      const Vec left = Simd::BroadcastWord(a + i);
#pragma GCC unroll 8
      for (int j = 0; j < kVectors; ++j) sum[i][j] = Simd::MulAdd(left, right[j], sum[i][j]);
    }
    if constexpr (kPanels == 1) {
      // Panels lie behind each other, so this also fetches the first rows of the next one.
      __builtin_prefetch(b + kPrefetchRows * kPanelColumns, 0, 2);
      __builtin_prefetch(b + kPrefetchRows * kPanelColumns + Simd::kLanes, 0, 2);
    }
    a += kRows;
    b += kPanelColumns;
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) {
      float* to = c + i * c_stride + j * Simd::kLanes;
      Vec value = sum[i][j];
      if (bias != nullptr) value = Simd::Add(value, Simd::Load(bias + j * Simd::kLanes));
      if (add) value = Simd::Add(value, Simd::Load(to));
      Simd::Store(value, to);
    }
  }
}

// Whether the sums and a row of the panels fit the registers; one panel must.
template <class Simd>
constexpr bool Fits(int rows, int panels) {
  if (panels == 1) return true;
  return 2 * panels * (rows + 1) < Simd::kRegisters && 2 * panels * rows <= 24;
}

template <class Simd, int kRows>
void AddMicroKernels(MatMulKernels* kernels) {
  MicroKernel* micro = kernels->micro[kRows - 1];
  micro[0] = &MicroKernelOf<Simd, kRows, 1>;
  if constexpr (Fits<Simd>(kRows, 2)) micro[1] = &MicroKernelOf<Simd, kRows, 2>;
  if constexpr (kRows > 1) AddMicroKernels<Simd, kRows - 1>(kernels);
}
