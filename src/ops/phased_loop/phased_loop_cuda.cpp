#include "ops/phased_loop/phased_loop_cuda.h"

#include <cstddef>
#include <vector>

#include "backend/cuda/check_cuda.h"
#include "ops/persistent_loop/loop_kernel_cuda.h"
#include "ops/persistent_loop/persistent_loop_cuda.h"
#include "ops/phased_loop/phased_args_cuda.h"
#include "ops/phased_loop/phased_emitter_cuda.h"
#include "ops/phased_loop/phased_tile_cuda.h"

namespace turbolstm::cuda {
namespace {

template <typename Value>
void Append(std::vector<std::byte>* bytes, const Value& value) {
  static_assert(sizeof(Value) % 8 == 0);
  const auto* const from = reinterpret_cast<const std::byte*>(&value);
  bytes->insert(bytes->end(), from, from + sizeof(Value));
}

}  // namespace

PhasedTile PhasedTileOnThisDevice(const PhasedStep& step, int64_t batch) {
  const int64_t processors = LoopProcessors();
  if (batch == 0 || processors == 0) return {};
  int device = 0, shared = 0;
  TL_CUDA_CHECK(cudaGetDevice(&device));
  TL_CUDA_CHECK(cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  const PhasedTile tile = ChoosePhasedTile(step, batch, processors, shared);
  const bool pays = tile.parts > 0 && PhasedCost(step, tile) < KernelPerPhaseCost(step, batch);
  return pays ? tile : PhasedTile{};
}

PhasedLoop::PhasedLoop(const PhasedStep& step, const PhasedTile& tile)
    : tile_(tile), kernel_(LoadLoopKernel(EmitPhasedLoop(step, tile))) {
  int device = 0;
  TL_CUDA_CHECK(cudaGetDevice(&device));
  TL_CUDA_CHECK(cudaKernelSetAttributeForDevice(kernel_,
                                                cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                static_cast<int>(tile_.shared_bytes), device));
}

void PhasedLoop::Launch(const PhasedRun& run, void* scratch, int* fault,
                        cudaStream_t stream) const {
  if (run.range.steps == 0) return;
  for (int64_t round = 0; round < tile_.rounds; ++round) {
    TL_CUDA_CHECK(
        cudaMemsetAsync(scratch, 0xff, static_cast<size_t>(tile_.exchange_bytes), stream));
    PhasedHead head;
    head.general = {run.sequences, run.range, 0, run.reverse ? 1 : 0};
    head.exchange = static_cast<char*>(scratch);
    head.fault = fault;
    head.first_tile = round * tile_.groups * tile_.tiles;
    std::vector<std::byte> bytes;
    Append(&bytes, head);
    for (const PhasedRun::Weights& weights : run.products) {
      PhasedWeights product;
      product.weight = static_cast<const char*>(weights.data);
      product.row_stride = weights.transposed ? 1 : weights.stride;
      product.inner_stride = weights.transposed ? weights.stride : 1;
      Append(&bytes, product);
    }
    for (const RowOperand& input : run.inputs) Append(&bytes, input);
    for (const RowOutput& output : run.outputs) Append(&bytes, output);
    void* arguments[] = {bytes.data()};
    TL_CUDA_CHECK(
        cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(kernel_),
                                    dim3(static_cast<unsigned>(tile_.parts * tile_.groups)),
                                    dim3(static_cast<unsigned>(kPhasedThreads)), arguments,
                                    static_cast<size_t>(tile_.shared_bytes), stream));
  }
}

}  // namespace turbolstm::cuda
