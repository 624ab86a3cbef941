#pragma once

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <stdexcept>
#include <string>

namespace turbolstm {

// Every failure a user can cause. The text begins with the operator or file in brackets and says
// what came and what was wanted: "[matmul] x has 3 features, weight wants 4".
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

template <typename... Args>
[[noreturn]] void Fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...));
}

// Throws Error with the formatted text unless the condition holds.
#define TL_CHECK(condition, ...)                      \
  do {                                                \
    if (!(condition)) ::turbolstm::Fail(__VA_ARGS__); \
  } while (false)

}  // namespace turbolstm
