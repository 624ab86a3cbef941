#include "ops/pointwise/nvrtc_cuda.h"

#include <nvrtc.h>

#include <memory>

#include "backend/cuda/shared_library_cuda.h"
#include "base/error.h"

namespace turbolstm::cuda {

struct Nvrtc::Functions {
  decltype(&nvrtcGetErrorString) error_string = nullptr;
  decltype(&nvrtcVersion) version = nullptr;
  decltype(&nvrtcCreateProgram) create = nullptr;
  decltype(&nvrtcDestroyProgram) destroy = nullptr;
  decltype(&nvrtcCompileProgram) compile = nullptr;
  decltype(&nvrtcGetProgramLogSize) log_size = nullptr;
  decltype(&nvrtcGetProgramLog) log = nullptr;
  decltype(&nvrtcGetCUBINSize) cubin_size = nullptr;
  decltype(&nvrtcGetCUBIN) cubin = nullptr;

  void Check(nvrtcResult result, const char* call) const {
    TL_CHECK(result == NVRTC_SUCCESS, "[nvrtc] {}: {}", call, error_string(result));
  }
};

Nvrtc::Nvrtc() {
  // Never closed: kernels may be compiled until the end.
  static const SharedLibrary library(kNvrtcNames);
  static Functions functions;
  library.Load(functions.error_string, "nvrtcGetErrorString");
  library.Load(functions.version, "nvrtcVersion");
  library.Load(functions.create, "nvrtcCreateProgram");
  library.Load(functions.destroy, "nvrtcDestroyProgram");
  library.Load(functions.compile, "nvrtcCompileProgram");
  library.Load(functions.log_size, "nvrtcGetProgramLogSize");
  library.Load(functions.log, "nvrtcGetProgramLog");
  library.Load(functions.cubin_size, "nvrtcGetCUBINSize");
  library.Load(functions.cubin, "nvrtcGetCUBIN");
  functions_ = &functions;
}

const Nvrtc& Nvrtc::Get() {
  static const Nvrtc nvrtc;
  return nvrtc;
}

std::string Nvrtc::Version() const {
  int major = 0, minor = 0;
  functions_->Check(functions_->version(&major, &minor), "nvrtcVersion");
  return fmt::format("{}.{}", major, minor);
}

std::vector<char> Nvrtc::Compile(const std::string& source, const std::string& architecture) const {
  const Functions& nvrtc = *functions_;
  nvrtcProgram program = nullptr;
  nvrtc.Check(nvrtc.create(&program, source.c_str(), "pointwise.cu", 0, nullptr, nullptr),
              "nvrtcCreateProgram");
  const auto destroy = [&nvrtc](nvrtcProgram* made) { nvrtc.destroy(made); };
  const std::unique_ptr<nvrtcProgram, decltype(destroy)> owner(&program, destroy);

  const std::string target = "--gpu-architecture=" + architecture;
  std::vector<const char*> options{target.c_str()};
  for (const std::string& option : NvrtcOptions()) options.push_back(option.c_str());
  const nvrtcResult compiled =
      nvrtc.compile(program, static_cast<int>(options.size()), options.data());
  if (compiled != NVRTC_SUCCESS) {
    size_t size = 0;
    nvrtc.log_size(program, &size);
    std::string log(size, '\0');
    if (size > 0) nvrtc.log(program, log.data());
    Fail("[nvrtc] compiling pointwise kernels for {}: {}\n{}", architecture,
         nvrtc.error_string(compiled), log.c_str());
  }
  size_t size = 0;
  nvrtc.Check(nvrtc.cubin_size(program, &size), "nvrtcGetCUBINSize");
  std::vector<char> cubin(size);
  nvrtc.Check(nvrtc.cubin(program, cubin.data()), "nvrtcGetCUBIN");
  return cubin;
}

const std::vector<std::string>& NvrtcOptions() {
  static const std::vector<std::string> options{"--std=c++17"};
  return options;
}

}  // namespace turbolstm::cuda
