#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <memory>

#include "backend/backends.h"
#include "backend/cuda/shared_library_cuda.h"
#include "base/error.h"

namespace turbolstm {
namespace {

// The driver's library, opened at run time so that one program also starts where there is none.
class Driver {
 public:
  Driver() : library_(dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), &dlclose) {
    TL_CHECK(library_, "[cuda] no NVIDIA driver (libcuda.so.1 does not open)");
    Load(get_error_string_, "cuGetErrorString");
    Load(init_, "cuInit");
    Load(driver_version_, "cuDriverGetVersion");
    Load(device_count_, "cuDeviceGetCount");
    Load(device_get_, "cuDeviceGet");
    Load(device_name_, "cuDeviceGetName");
    Load(total_memory_, "cuDeviceTotalMem_v2");
    Load(attribute_, "cuDeviceGetAttribute");
    Check(init_(0), "cuInit");
  }

  int DeviceCount() const {
    int count = 0;
    Check(device_count_(&count), "cuDeviceGetCount");
    return count;
  }

  DeviceInfo Describe(int index) const {
    CUdevice device = 0;
    Check(device_get_(&device, index), "cuDeviceGet");
    char name[256] = {};
    Check(device_name_(name, static_cast<int>(sizeof(name)), device), "cuDeviceGetName");
    size_t bytes = 0;
    Check(total_memory_(&bytes, device), "cuDeviceTotalMem");
    return {
        .kind = DeviceKind::kCuda,
        .index = index,
        .name = name,
        .memory_bytes = bytes,
        .description = fmt::format(
            "compute capability {}.{}, {} multiprocessors, {} KiB shared memory each, driver {}",
            Attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
            Attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
            Attribute(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
            Attribute(device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR) / 1024,
            DriverVersion())};
  }

 private:
  template <typename Function>
  void Load(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(library_.get(), name));
    TL_CHECK(function, "[cuda] the NVIDIA driver lacks {}", name);
  }

  void Check(CUresult result, const char* call) const {
    if (result == CUDA_SUCCESS) return;
    const char* text = nullptr;
    get_error_string_(result, &text);
    Fail("[cuda] {}: {}", call, text ? text : "unknown error");
  }

  int Attribute(CUdevice device, CUdevice_attribute attribute) const {
    int value = 0;
    Check(attribute_(&value, attribute, device), "cuDeviceGetAttribute");
    return value;
  }

  std::string DriverVersion() const {
    int version = 0;  // 1000 * major + 10 * minor
    Check(driver_version_(&version), "cuDriverGetVersion");
    return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
  }

  std::unique_ptr<void, int (*)(void*)> library_;
  decltype(&cuGetErrorString) get_error_string_ = nullptr;
  decltype(&cuInit) init_ = nullptr;
  decltype(&cuDriverGetVersion) driver_version_ = nullptr;
  decltype(&cuDeviceGetCount) device_count_ = nullptr;
  decltype(&cuDeviceGet) device_get_ = nullptr;
  decltype(&cuDeviceGetName) device_name_ = nullptr;
  decltype(&cuDeviceTotalMem) total_memory_ = nullptr;  // cuda.h renames it to the 64-bit _v2
  decltype(&cuDeviceGetAttribute) attribute_ = nullptr;
};

std::string RuntimeVersion() {
  int version = 0;  // 1000 * major + 10 * minor
  cudaRuntimeGetVersion(&version);
  return fmt::format("{}.{}, part of this program", version / 1000, version % 1000 / 10);
}

std::string CublasLtVersion() {
  const cuda::SharedLibrary library(cuda::kCublasLtNames);
  size_t (*get_version)() = nullptr;
  library.Load(get_version, "cublasLtGetVersion");
  const size_t version = get_version();  // 10000 * major + 100 * minor + patch, as of 12
  return fmt::format("{}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
}

std::string NvrtcVersion() {
  const cuda::SharedLibrary library(cuda::kNvrtcNames);
  int (*get_version)(int*, int*) = nullptr;
  library.Load(get_version, "nvrtcVersion");
  int major = 0, minor = 0;
  get_version(&major, &minor);
  return fmt::format("{}.{}", major, minor);
}

// The version, or what was looked for.
LibraryInfo Describe(const char* name, std::string (*version)()) {
  try {
    return {DeviceKind::kCuda, name, version()};
  } catch (const Error& error) {
    return {DeviceKind::kCuda, name, error.what()};
  }
}

}  // namespace

std::vector<LibraryInfo> CudaLibraries() {
  return {Describe("runtime", RuntimeVersion), Describe("cuBLASLt", CublasLtVersion),
          Describe("NVRTC", NvrtcVersion)};
}

BackendInfo DescribeCuda() {
  BackendInfo info{.kind = DeviceKind::kCuda, .devices = {}, .absence = {}};
  try {
    const Driver driver;
    for (int index = 0; index < driver.DeviceCount(); ++index) {
      info.devices.push_back(driver.Describe(index));
    }
    if (info.devices.empty()) info.absence = "the NVIDIA driver lists no GPU";
  } catch (const Error& error) {
    info.devices.clear();
    info.absence = error.what();
  }
  return info;
}

}  // namespace turbolstm
