#include "backend/cuda/shared_library_cuda.h"

#include <dlfcn.h>

#include <vector>

#include "base/error.h"

namespace turbolstm::cuda {

SharedLibrary::SharedLibrary(std::initializer_list<const char*> names)
    : handle_(nullptr, &dlclose) {
  for (const std::string folder : {"", TL_CUDA_LIBRARY_FOLDER "/"}) {
    for (const char* name : names) {
      handle_.reset(dlopen((folder + name).c_str(), RTLD_NOW | RTLD_LOCAL));
      if (!handle_) continue;
      name_ = name;
      return;
    }
  }
  Fail("[cuda] none of {} opens (looked in LD_LIBRARY_PATH, the system's folders and {})",
       fmt::join(std::vector<std::string>(names.begin(), names.end()), ", "),
       TL_CUDA_LIBRARY_FOLDER);
}

void* SharedLibrary::Find(const char* name) const {
  void* const symbol = dlsym(handle_.get(), name);
  TL_CHECK(symbol, "[cuda] {} lacks {}", name_, name);
  return symbol;
}

}  // namespace turbolstm::cuda
