#pragma once

#include <initializer_list>
#include <memory>
#include <string>

namespace turbolstm::cuda {

inline constexpr std::initializer_list<const char*> kCublasLtNames = {"libcublasLt.so.13",
                                                                      "libcublasLt.so.12"};
inline constexpr std::initializer_list<const char*> kNvrtcNames = {"libnvrtc.so.13",
                                                                   "libnvrtc.so.12", "libnvrtc.so"};

// A vendor's library that is opened when it is first needed, so that the program also starts where
// there is none.
class SharedLibrary {
 public:
  // The first of the names that opens, by the usual search and then in the toolkit's folder.
  // Error naming what was looked for.
  explicit SharedLibrary(std::initializer_list<const char*> names);

  template <typename Function>
  void Load(Function& function, const char* name) const {
    function = reinterpret_cast<Function>(Find(name));
  }

 private:
  void* Find(const char* name) const;

  std::string name_;
  std::unique_ptr<void, int (*)(void*)> handle_;
};

}  // namespace turbolstm::cuda
