#include "ops/persistent_loop/persistent_loop_cuda.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "backend/cuda/check_cuda.h"
#include "base/error.h"
#include "ops/persistent_loop/device_code_cuda.h"
#include "ops/persistent_loop/emitter_cuda.h"
#include "ops/persistent_loop/loop_kernel_cuda.h"
#include "ops/pointwise/machine_code_cuda.h"

namespace turbolstm::cuda {
namespace {

int64_t Attribute(cudaDeviceAttr attribute) {
  int device = 0, value = 0;
  TL_CUDA_CHECK(cudaGetDevice(&device));
  TL_CUDA_CHECK(cudaDeviceGetAttribute(&value, attribute, device));
  return value;
}

void SetAttribute(cudaKernel_t kernel, cudaFuncAttribute attribute, int64_t value) {
  int device = 0;
  TL_CUDA_CHECK(cudaGetDevice(&device));
  TL_CUDA_CHECK(
      cudaKernelSetAttributeForDevice(kernel, attribute, static_cast<int>(value), device));
}

// Blocks that hand values to each other run at once: those of a cluster in any case, others by
// asking for it.
cudaLaunchAttribute AllAtOnce(const LoopTile& tile) {
  cudaLaunchAttribute attribute;
  if (tile.exchange == Exchange::kMemory) {
    attribute.id = cudaLaunchAttributeCooperative;
    attribute.val.cooperative = 1;
  } else {
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = {static_cast<unsigned>(tile.parts), 1, 1};
  }
  return attribute;
}

bool IsAligned(const LoopRun& run, int64_t alignment) {
  const auto fits = [&](const void* place, int64_t bytes) {
    const uint64_t both = reinterpret_cast<uintptr_t>(place) | static_cast<uint64_t>(bytes);
    return both % static_cast<uint64_t>(alignment) == 0;
  };
  return std::all_of(run.inputs.begin(), run.inputs.end(),
                     [&](const RowOperand& input) {
                       return fits(input.data, input.row_bytes) &&
                              fits(input.init, input.init_row_bytes);
                     }) &&
         std::all_of(run.outputs.begin(), run.outputs.end(),
                     [&](const RowOutput& output) { return fits(output.data, output.row_bytes); });
}

template <typename Value>
void Append(std::vector<std::byte>* bytes, const Value& value) {
  static_assert(sizeof(Value) % 8 == 0);
  const auto* const from = reinterpret_cast<const std::byte*>(&value);
  bytes->insert(bytes->end(), from, from + sizeof(Value));
}

}  // namespace

int64_t LoopProcessors() {
  if (!Attribute(cudaDevAttrCooperativeLaunch) || CurrentCapability() < 80) return 0;
  return Attribute(cudaDevAttrMultiProcessorCount);
}

LoopRoom RoomOnThisDevice(int64_t processors) {
  return {processors, Attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin),
          CurrentCapability() >= 90};
}

LoopTile TileOnThisDevice(const LoopStep& step, int64_t batch, int64_t processors, int64_t chains) {
  if (batch == 0) return {};
  return ChooseTile(step, batch, RoomOnThisDevice(processors), chains);
}

PersistentLoop::PersistentLoop(const LoopStep& step, const LoopTile& tile)
    : tile_(tile), alignment_(step.alignment) {
  kernel_ = LoadLoopKernel(EmitLoop(step, tile_));
  SetAttribute(kernel_, cudaFuncAttributeMaxDynamicSharedMemorySize, tile_.shared_bytes);
  if (tile_.exchange != Exchange::kMemory) {
    SetAttribute(kernel_, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
  }
}

void PersistentLoop::Launch(const LoopRun& run, void* scratch, int* fault,
                            cudaStream_t stream) const {
  if (run.begin == run.end) return;
  TL_CHECK(IsAligned(run, alignment_),
           "[persistent_loop] rows do not begin at multiples of {} bytes", alignment_);
  if (run.begin == 0 && tile_.exchange == Exchange::kMemory) {
    TL_CUDA_CHECK(
        cudaMemsetAsync(scratch, 0xff, static_cast<size_t>(tile_.exchange_bytes), stream));
  }
  LoopHead head;
  head.general = {run.sequences, run.range, 0, run.reverse ? 1 : 0};
  head.x = run.x;
  head.weight = static_cast<const char*>(run.weight);
  head.row_stride = run.weight_transposed ? 1 : run.weight_stride;
  head.inner_stride = run.weight_transposed ? run.weight_stride : 1;
  head.bias = run.bias;
  head.exchange = static_cast<char*>(scratch);
  head.fault = fault;
  head.tiles = tile_.tiles;
  head.begin = run.begin;
  head.end = run.end;
  head.carry = static_cast<float*>(run.carry);
  std::vector<std::byte> bytes;
  Append(&bytes, head);
  for (const RowOperand& input : run.inputs) Append(&bytes, input);
  for (const RowOutput& output : run.outputs) Append(&bytes, output);
  void* arguments[] = {bytes.data()};
  cudaLaunchAttribute at_once = AllAtOnce(tile_);
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(tile_.parts * tile_.groups));
  config.blockDim = dim3(static_cast<unsigned>(BlockThreads(tile_)));
  config.dynamicSmemBytes = static_cast<size_t>(tile_.shared_bytes);
  config.stream = stream;
  config.attrs = &at_once;
  config.numAttrs = 1;
  TL_CUDA_CHECK(cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(kernel_), arguments));
}

}  // namespace turbolstm::cuda
