// The text of a persistent loop's kernel, in terms of what block_text_cuda.h declares; what stands
// between @ depends on the program.
#pragma once

#include <string_view>

namespace turbolstm::cuda {

// What moves a step's inputs and outputs; what stands between @ depends on the program.
constexpr std::string_view kMoverText = R"text(
// By the moving warps: this block's share of a step's inputs is on the way to shared memory.
__device__ __forceinline__ void FetchInputs(const Args& args, char* stage, int first_row,
                                            int first_unit, int t) {
  const int batch = static_cast<int>(args.head.general.sequences.batch);
  const int steps = static_cast<int>(args.head.general.range.steps);
  const int* const lengths =
      args.head.general.range.padded ? args.head.general.sequences.lengths : nullptr;
  const unsigned char* const resets = args.head.general.sequences.resets;
  const int warp = (threadIdx.x - kFirstMover) / 32;
  const int lane = threadIdx.x % 32;
@fetch@}

__device__ __forceinline__ void PutOutputs(const Args& args, const char* stage, int first_row,
                                           int first_unit, int t) {
  const int batch = static_cast<int>(args.head.general.sequences.batch);
  const int warp = (threadIdx.x - kFirstMover) / 32;
  const int lane = threadIdx.x % 32;
@put@}

// A step of the tiles from one on, and the next one.
struct Turn {
  int s, tile;
  __device__ __forceinline__ Turn Next(int tiles) const {
    return tile + kTurnTiles < tiles ? Turn{s, tile + kTurnTiles} : Turn{s + 1, 0};
  }
};

// By the moving warps: fetches inputs one turn ahead, and puts outputs away one turn behind.
struct Mover {
  const Args& args;
  char* inputs;  // of a turn, in each of their places
  const char* outputs;
  int first_tile, first_unit, steps, tiles, begin, end;
  Turn before;

  __device__ __forceinline__ int RowOf(Turn turn, int j) const {
    return (first_tile + turn.tile + j) * kTileRows;
  }
  __device__ __forceinline__ int TimeOf(Turn turn) const {
    return args.head.general.reverse ? steps - 1 - turn.s : turn.s;
  }
  __device__ __forceinline__ void Fetch(Turn turn, int place) const {
    for (int j = 0; j < kTurnTiles && turn.s < end; ++j) {
      FetchInputs(args, inputs + (place * kTurnTiles + j) * kInputBytes, RowOf(turn, j),
                  first_unit, TimeOf(turn));
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  }
  __device__ __forceinline__ void Put(int place = 0) const {
    for (int j = 0; j < kTurnTiles; ++j) {
      PutOutputs(args, outputs + (place * kTurnTiles + j) * kOutputBytes, RowOf(before, j), first_unit, TimeOf(before));
    }
  }
  // While others wait for x and multiply; then this turn's inputs are there.
  __device__ __forceinline__ void Run(Turn turn, int parity) {
    Fetch(turn.Next(tiles), 1 - parity);
    if (turn.s > begin || turn.tile > 0) Put();
    before = turn;
    asm volatile("cp.async.wait_group 1;" ::: "memory");
  }
};
)text";

// What becomes of an element whose product is done.
constexpr std::string_view kFinishText = R"text(
@products@      float @results@;
@declarations@        if (at.valid) {
@inputs@@sums@          step_compute(@arguments@);
      }
@parts@        // Nobody waits for the rest.
      if (at.row < kTileRows) {
@carry@@kept@@stores@        }
)text";

// The kernel; what stands between @ depends on the program.
constexpr std::string_view kKernelText = R"text(
extern "C" __global__ void __launch_bounds__(kAllThreads, 1)
    loop(const __grid_constant__ Args args) {
  extern __shared__ uint4 shared[];
  float* const sums = reinterpret_cast<float*>(shared + kLoopWarps * kLoose * 32);
  char* const all_inputs = reinterpret_cast<char*>(sums + kTurnTiles * kSumFloats);
  char* const all_outputs = all_inputs + 2 * kTurnTiles * kInputBytes;
  float* const all_carried = reinterpret_cast<float*>(all_outputs + kTurnTiles * kOutputBytes);
  const LoopHead& head = args.head;
  const int steps = static_cast<int>(head.general.range.steps);
  const int batch = static_cast<int>(head.general.sequences.batch);
  const int* const lengths = head.general.range.padded ? head.general.sequences.lengths : nullptr;
  const unsigned char* const resets = head.general.sequences.resets;
  constexpr int kParts = kPaddedUnits / kUnits;
  const int tiles = head.tiles;
  const int first_tile = blockIdx.x / kParts * tiles;
  const int part = blockIdx.x % kParts;
  const int first_unit = part * kUnits;
  const int split = part % kSplits;
  const bool has_init = kHasInit && head.x.init;
  char* const exchange = head.exchange + static_cast<long long>(first_tile) * kStepSlots * kSlotBytes;
  const bool computes = threadIdx.x < kLoopThreads;
  const bool moves = !computes && threadIdx.x < kLoopThreads + kMovingThreads;
  const bool clears = !computes && !moves;
  const int begin = static_cast<int>(head.begin);
  const int end = static_cast<int>(head.end);
  Mover mover{args,  all_inputs, all_outputs, first_tile, first_unit, steps,
              tiles, begin,      end,         {begin, 0}};
  Multiplier multiplier;
  if (moves) mover.Fetch({begin, 0}, 0);
  if (computes) multiplier.Load(head, first_unit - split * kUnits, split, shared);
  const int carried_floats = tiles * kCarried * kTileRows * kUnits;
  float* const carry = head.carry + static_cast<long long>(blockIdx.x) * carried_floats;
  for (int i = threadIdx.x; begin > 0 && i < carried_floats; i += kAllThreads) {
    all_carried[i] = carry[i];
  }
  for (int tile = 0; computes && has_init && begin == 0 && tile < tiles; ++tile) {
    const Place at =
        PlaceOf((first_tile + tile) * kTileRows, first_unit, 0, steps, batch, nullptr);
    char* const slot = exchange + (static_cast<long long>(tile) * kStepSlots + kStepSlots - 1) * kSlotBytes;
@inits@  }
@biases@  bool lost = false;
  int parity = 0;
  __syncthreads();
  for (int s = begin; s < end; ++s) {
    const int t = head.general.reverse ? steps - 1 - s : s;
    const bool multiplied = s > 0 || has_init;
    for (int tile = 0; tile < tiles; tile += kTurnTiles) {
      char* const slots = exchange + static_cast<long long>(tile) * (kStepSlots * kSlotBytes);
@early@      if (computes && multiplied) {
        const bool last = tile + kTurnTiles >= tiles;
        char* const slot = slots + (s + kStepSlots - 1) % kStepSlots * kSlotBytes;
        multiplier.Run(slot,
                       last ? exchange + s % kStepSlots * kSlotBytes
                            : slot + kTurnTiles * kStepSlots * kSlotBytes,
                       sums);
      }
      if (moves) mover.Run({s, tile}, parity);
      // Partial sums are in shared memory, and the step's inputs.
      __syncthreads();
#pragma unroll
      for (int j = 0; j < kTurnTiles; ++j) {
        char* const slot = slots + (j * kStepSlots + s % kStepSlots) * kSlotBytes;
        const char* const inputs = all_inputs + (parity * kTurnTiles + j) * kInputBytes;
        char* const outputs = all_outputs + j * kOutputBytes;
        if (clears) {
          char* const old = slots + (j * kStepSlots + (s + kStepSlots / 2) % kStepSlots) * kSlotBytes;
          Clear(old, first_unit);
@clear@        }
        if (!computes) continue;
@late@@finish@      }
      // They are read, and outputs are in shared memory.
      __syncthreads();
      parity = 1 - parity;
    }
    if (clears) FenceDevice();
  }
  if (moves) mover.Put();
  for (int i = threadIdx.x; end < steps && i < carried_floats; i += kAllThreads) {
    carry[i] = all_carried[i];
  }
}

}  // namespace turbolstm::cuda
)text";

}  // namespace turbolstm::cuda
