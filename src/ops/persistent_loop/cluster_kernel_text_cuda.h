// The text of the kernel of a persistent loop whose blocks form clusters, in terms of what
// cluster_text_cuda.h and kernel_text_cuda.h declare; what stands between @ depends on the program.
#pragma once

#include <string_view>

namespace turbolstm::cuda {

constexpr std::string_view kClusterKernelText = R"text(
// Turns whose inputs are in shared memory, or on the way there.
constexpr int kPlaces = 3;

// What a sequence is at a step, and from bit 3 on whether an input reads a step before.
constexpr int kIsValid = 1;
constexpr int kBeginsAnew = 2;
constexpr int kBeginsFromZeros = 4;
__device__ __forceinline__ int FlagsOf(const Args& args, unsigned b, int s) {
  const int batch = static_cast<int>(args.head.general.sequences.batch);
  const int steps = static_cast<int>(args.head.general.range.steps);
  const unsigned char* const resets = args.head.general.sequences.resets;
  if (b >= batch) return 0;
  const int t = args.head.general.reverse ? steps - 1 - s : s;
  struct {
    unsigned b;
    int length;
    bool there, valid;
  } at = {b, steps, true, true};
  if (args.head.general.range.padded && args.head.general.sequences.lengths) {
    at.length = args.head.general.sequences.lengths[b];
    at.valid = t < at.length;
  }
@anew@  int flags = (at.valid ? kIsValid : 0) | (anew ? kBeginsAnew : 0) |
              (anew == kFromZeros ? kBeginsFromZeros : 0);
@flags@  return flags;
}

// By the moving warps: what two turns later is needed.
__device__ __forceinline__ void Prepare(const Mover& mover, int* flags, Turn turn, int place) {
  mover.Fetch(turn, place);
  const int row = static_cast<int>(threadIdx.x) - kLoopThreads;
  if (row < kTileRows && turn.s < mover.end) {
    flags[place * kTileRows + row] = FlagsOf(mover.args, mover.RowOf(turn, 0) + row, turn.s);
  }
}

extern "C" __global__ void __launch_bounds__(kAllThreads, 1)
    loop(const __grid_constant__ Args args) {
  extern __shared__ uint4 shared[];
  char* const all_inputs = reinterpret_cast<char*>(shared) + Exchange::kSharedBytes;
  char* const outputs = all_inputs + kPlaces * kInputBytes;
  int* const all_flags = reinterpret_cast<int*>(outputs + kOutputBytes);
  float* const all_carried = reinterpret_cast<float*>(all_flags + kPlaces * kTileRows);
  const LoopHead& head = args.head;
  const int steps = static_cast<int>(head.general.range.steps);
  const int batch = static_cast<int>(head.general.sequences.batch);
  const unsigned char* const resets = head.general.sequences.resets;
  const int tiles = head.tiles;
  const int first_tile = blockIdx.x / kParts * tiles;
  const int first_unit = blockIdx.x % kParts * kUnits;
  const bool computes = threadIdx.x < kLoopThreads;
  const int begin = static_cast<int>(head.begin);
  const int end = static_cast<int>(head.end);
  const bool has_init = kHasInit && head.x.init && begin == 0;
  // What step s reads is handed over as the (s - before)-th.
  const int before = has_init || begin > 0 ? begin : begin + 1;
  Mover mover{args,  all_inputs, outputs, first_tile, first_unit, steps,
              tiles, begin,      end,     {begin, 0}};
  const int carried_floats = tiles * kCarried * kTileRows * kUnits;
  Exchange exchange(head, shared, reinterpret_cast<char*>(all_carried + carried_floats), first_tile,
                    first_unit);
  float* const carry = head.carry + static_cast<long long>(blockIdx.x) * carried_floats;
  for (int i = threadIdx.x; begin > 0 && i < carried_floats; i += kAllThreads) {
    all_carried[i] = carry[i];
  }
  const Turn first{begin, 0};
  if (!computes) {
    Prepare(mover, all_flags, first, 0);
    Prepare(mover, all_flags, first.Next(tiles), 1);
  }
  exchange.Begin();
  for (int tile = 0; computes && has_init && tile < tiles; ++tile) {
    const Place at = PlaceOf((first_tile + tile) * kTileRows, first_unit, 0, steps, batch, nullptr);
@inits@  }
@biases@  int place = 0;
  __syncthreads();
  for (int s = begin; s < end; ++s) {
    const int t = head.general.reverse ? steps - 1 - s : s;
    const int n = s - before;
    const bool multiplied = n >= 0;
    for (int tile = 0; tile < tiles; ++tile) {
@element@      if (computes && multiplied) exchange.Multiply(n, tile);
      if (!computes) {
        if (s > begin || tile > 0) mover.Put();
        mover.before = {s, tile};
        asm volatile("cp.async.wait_group 1;" ::: "memory");
      }
      // Sums are in shared memory, and the step's inputs.
      __syncthreads();
      if (computes) {
        const char* const inputs = all_inputs + place * kInputBytes;
        if (multiplied) exchange.Await(n, tile);
        float @results@;
@declarations@        if (at.valid) {
@inputs@@sums@          step_compute(@arguments@);
        }
@parts@        // Nobody waits for the rest.
        if (at.row < kTileRows) {
@carry@@kept@@stores@        }
      } else {
        Prepare(mover, all_flags, Turn{s, tile}.Next(tiles).Next(tiles), place == 0 ? 2 : place - 1);
      }
      // They are read, and outputs are in shared memory.
      __syncthreads();
      if (computes && s + 1 < steps) exchange.EndTurn(n + 1, tile);
      place = place == kPlaces - 1 ? 0 : place + 1;
    }
  }
  if (!computes) mover.Put();
  if (end < steps) {
    exchange.Keep(end - before);
    for (int i = threadIdx.x; i < carried_floats; i += kAllThreads) carry[i] = all_carried[i];
  }
  // Nobody leaves while others write to it.
  SyncCluster();
}

}  // namespace turbolstm::cuda
)text";

}  // namespace turbolstm::cuda
