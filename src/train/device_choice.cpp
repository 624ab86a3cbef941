#include "train/device_choice.h"

#include <charconv>
#include <optional>

#include "base/error.h"
#include "execution/make_execution.h"
#include "plan/executable.h"

namespace turbolstm {
namespace {

constexpr std::string_view kGpu = "cuda";

BackendInfo Gpus() {
  for (BackendInfo& backend : ListBackends()) {
    if (backend.kind == DeviceKind::kCuda) return std::move(backend);
  }
  return {.kind = DeviceKind::kCuda, .devices = {}, .absence = "no such backend"};
}

DeviceChoice Chosen(const DeviceInfo& device) {
  return {device.kind, device.index,
          fmt::format("{}:{}, {}", Name(device.kind), device.index, device.name)};
}

// The number behind "cuda:", 0 behind "cuda"; nothing for any other text.
std::optional<int> GpuIndex(std::string_view wanted) {
  if (!wanted.starts_with(kGpu)) return {};
  wanted.remove_prefix(kGpu.size());
  if (wanted.empty()) return 0;
  if (!wanted.starts_with(':')) return {};
  wanted.remove_prefix(1);
  int index = 0;
  const auto [end, error] = std::from_chars(wanted.data(), wanted.data() + wanted.size(), index);
  if (error != std::errc() || end != wanted.data() + wanted.size() || index < 0) return {};
  return index;
}

bool Has(const DeviceChoice& device, Precision precision) {
  return device.kind != DeviceKind::kCpu || precision == Precision::kFloat32 ||
         precision == Precision::kBFloat16;
}

}  // namespace

DeviceChoice ChooseDevice(std::string_view wanted) {
  if (wanted == "cpu") return {};
  const bool any = wanted == "auto";
  const std::optional<int> index = any ? 0 : GpuIndex(wanted);
  TL_CHECK(index, "[device] train.device is '{}', wants auto, cpu, cuda or cuda:<number>",
           wanted.substr(0, 80));
  const BackendInfo gpus = Gpus();
  for (const DeviceInfo& device : gpus.devices) {
    if (device.index == *index) return Chosen(device);
  }
  if (any) return {DeviceKind::kCpu, 0, fmt::format("cpu (no GPU: {})", gpus.absence)};
  TL_CHECK(!gpus.devices.empty(),
           "[device] train.device is '{}', but no NVIDIA GPU answers: {} (looked for a build with "
           "CUDA, the driver's library and its devices; 'turbolstm doctor' shows them)",
           wanted, gpus.absence);
  Fail("[device] train.device is '{}', but the last NVIDIA GPU is cuda:{}", wanted,
       gpus.devices.back().index);
}

void CheckPrecision(const DeviceChoice& device, Precision precision) {
  TL_CHECK(Has(device, precision),
           "[device] model.precision is '{}', which needs a GPU; on {} there are fp32 and bf16",
           Name(precision), device.text);
}

Precision AnswerPrecision(const DeviceChoice& device, Precision trained) {
  return Has(device, trained) ? trained : Precision::kFloat32;
}

std::unique_ptr<Execution> MakeExecution(Graph graph, const DeviceChoice& device,
                                         Precision precision,
                                         const std::shared_ptr<StreamPool>& pool) {
  if (device.kind == DeviceKind::kCuda) {
    return MakeCudaExecution(std::move(graph), {.index = device.index, .precision = precision});
  }
  const ExecutableOptions options{.precision = precision, .streams = pool->streams()};
  return std::make_unique<Executable>(std::move(graph), options, pool);
}

}  // namespace turbolstm
