// The text of a persistent loop whose warps have roles: some multiply, others run the program on
// what has been multiplied a turn before.
#pragma once

#include <string_view>

namespace turbolstm::cuda {

// Turn i is multiplied in front of the i-th barrier and finished behind it, while turn i + 1 is
// multiplied; so partial sums have two places in turn, and outputs too. Where there is one turn a
// step and x is long, nobody looks for x before the own share of it is handed over. Where blocks
// split the inner axis and there are turns enough, it is finished one turn later still, when the
// sums of other blocks have come. What stands between @ depends on the program.
constexpr std::string_view kRoleText = R"text(
#if defined(__CUDA_ARCH_FEAT_SM90_ALL) || defined(__CUDA_ARCH_FEAT_SM100_ALL)
#define TL_REGISTERS_MOVE
#endif

// Registers of each thread of four warps from now on.
template <int kCount>
__device__ __forceinline__ void TakeRegisters() {
#ifdef TL_REGISTERS_MOVE
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" : : "n"(kCount));
#endif
}
template <int kCount>
__device__ __forceinline__ void GiveRegistersBack() {
#ifdef TL_REGISTERS_MOVE
  if constexpr (kCount > 0) asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" : : "n"(kCount));
#endif
}

extern "C" __global__ void __launch_bounds__(kAllThreads, 1)
    loop(const __grid_constant__ Args args) {
  extern __shared__ uint4 shared[];
  float* const all_sums = reinterpret_cast<float*>(shared + kLoopWarps * kLoose * 32);
  char* const all_inputs = reinterpret_cast<char*>(all_sums + 2 * kTurnTiles * kSumFloats);
  char* const all_outputs = all_inputs + kInputPlaces * kTurnTiles * kInputBytes;
  float* const all_carried = reinterpret_cast<float*>(all_outputs + 2 * kTurnTiles * kOutputBytes);
  const LoopHead& head = args.head;
  const int steps = static_cast<int>(head.general.range.steps);
  constexpr int kParts = kPaddedUnits / kUnits;
  const int tiles = head.tiles;
  const int begin = static_cast<int>(head.begin);
  const int end = static_cast<int>(head.end);
  const int turns = (end - begin) * (tiles / kTurnTiles);
  const int first_tile = blockIdx.x / kParts * tiles;
  const int part = blockIdx.x % kParts;
  const int first_unit = part * kUnits;
  const int split = part % kSplits;
  const bool has_init = kHasInit && head.x.init;
  char* const exchange = head.exchange + static_cast<long long>(first_tile) * kStepSlots * kSlotBytes;
  const auto slot_of = [&](int s, int tile) {
    return exchange + (static_cast<long long>(tile) * kStepSlots + (s + kStepSlots) % kStepSlots) * kSlotBytes;
  };
  const int carried_floats = tiles * kCarried * kTileRows * kUnits;
  float* const carry = head.carry + static_cast<long long>(blockIdx.x) * carried_floats;
  Turn turn{begin, 0};
  if (threadIdx.x < kLoopThreads) {
    TakeRegisters<kMultiplierRegisters>();
    Multiplier multiplier;
    multiplier.Load(head, first_unit - split * kUnits, split, shared);
    __syncthreads();
    for (int i = 0; i < turns; ++i) {
      const Turn next = turn.Next(tiles);
      if (kGated) __syncthreads();
      if (turn.s > 0 || has_init) {
        multiplier.Run(slot_of(turn.s - 1, turn.tile), slot_of(next.s - 1, next.tile),
                       all_sums + i % 2 * kTurnTiles * kSumFloats);
      }
      turn = next;
      __syncthreads();
    }
    for (int i = kGated ? -1 : 0; i <= kDefer; ++i) __syncthreads();
  } else if (threadIdx.x < kFirstMover) {
    GiveRegistersBack<kFinisherRegisters>();
    const int batch = static_cast<int>(head.general.sequences.batch);
    const int* const lengths = head.general.range.padded ? head.general.sequences.lengths : nullptr;
    const unsigned char* const resets = head.general.sequences.resets;
    const int thread = threadIdx.x - kFirstFinisher;
    for (int i = thread; begin > 0 && i < carried_floats; i += 32 * kFinishingWarps) {
      all_carried[i] = carry[i];
    }
    for (int tile = 0; has_init && begin == 0 && tile < tiles; ++tile) {
      const Place at =
          PlaceOf((first_tile + tile) * kTileRows, first_unit, 0, steps, batch, nullptr);
      char* const slot = slot_of(-1, tile);
@inits@    }
@biases@    int staged = 0;
    bool lost = false;
    float own[kTurnTiles][kGates];
    Turn summed = turn;  // `turn` is finished, which may be the one before
    __syncthreads();
    for (int i = 0; i < turns + kDefer; ++i) {
      const int s = turn.s, tile = turn.tile;
      const int t = head.general.reverse ? steps - 1 - s : s;
      const bool multiplied = s > 0 || has_init;
@early@      if (kGated) __syncthreads();
      // Partial sums are in shared memory, and the step's inputs.
      __syncthreads();
      float sums_of_last[kTurnTiles][kGates];
#pragma unroll
      for (int j = 0; j < kTurnTiles; ++j) {
#pragma unroll
        for (int g = 0; g < kGates; ++g) sums_of_last[j][g] = own[j][g];
        if (i == turns || (summed.s == 0 && !has_init)) continue;
        const float* const sums = all_sums + (i % 2 * kTurnTiles + j) * kSumFloats;
        const Place at = PlaceOf(0, first_unit, 0, steps, batch, nullptr);
@send@#pragma unroll
        for (int g = 0; g < kGates; ++g) {
          own[j][g] = SumOf(sums, at.row, (split * kGates + g) * kUnits + at.unit);
        }
      }
      summed = summed.Next(tiles);
      if (i < kDefer) continue;
#pragma unroll
      for (int j = 0; j < kTurnTiles; ++j) {
#pragma unroll
        for (int g = 0; g < kGates; ++g) {
          if (kDefer == 0) sums_of_last[j][g] = own[j][g];
        }
        char* const slot = slot_of(s, tile + j);
        const char* const inputs = all_inputs + (staged * kTurnTiles + j) * kInputBytes;
        char* const outputs = all_outputs + ((i - kDefer) % 2 * kTurnTiles + j) * kOutputBytes;
@late@@finish@      }
      staged = staged == kInputPlaces - 1 ? 0 : staged + 1;
      turn = turn.Next(tiles);
    }
    if (kGated) __syncthreads();
    __syncthreads();
    for (int i = thread; end < steps && i < carried_floats; i += 32 * kFinishingWarps) {
      carry[i] = all_carried[i];
    }
  } else {
    GiveRegistersBack<kMoverRegisters>();
    const bool moves = threadIdx.x < kFirstMover + kMovingThreads;
    Mover mover{args,  all_inputs, all_outputs, first_tile, first_unit, steps,
                tiles, begin,      end,         turn};
    // Turns whose inputs are on the way: a group of copies each.
    Turn fetched = turn;
    for (int i = 0; moves && i < kFetchAhead; ++i) {
      mover.Fetch(fetched, i);
      fetched = fetched.Next(tiles);
    }
    int staged = kFetchAhead;
    __syncthreads();
    // `turn` is being multiplied, the one before finished, or the one before that where sums wait;
    // the one before that is put away, which `mover.before` says.
    Turn multiplied = turn;
    for (int i = 0; i <= turns + kDefer; ++i) {
      if (kGated) __syncthreads();
      if (moves) {
        mover.Fetch(fetched, staged);
        fetched = fetched.Next(tiles);
        if (i > 1 + kDefer) {
          mover.Put((i - kDefer) % 2);
          mover.before = mover.before.Next(tiles);
        }
        asm volatile("cp.async.wait_group %0;" ::"n"(kFetchAhead) : "memory");
      } else if (i > 0 && i <= turns) {
        for (int j = 0; j < kTurnTiles; ++j) {
          char* const old = slot_of(multiplied.s + kStepSlots / 2, multiplied.tile + j);
          Clear(old, first_unit);
@clear@        }
        if (multiplied.tile + kTurnTiles == tiles) FenceDevice();
      }
      staged = staged == kInputPlaces - 1 ? 0 : staged + 1;
      multiplied = turn;
      turn = turn.Next(tiles);
      __syncthreads();
    }
    if (moves) mover.Put((turns - 1) % 2);
  }
}

}  // namespace turbolstm::cuda
)text";

}  // namespace turbolstm::cuda
