#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "train/config.h"

// Any text is either a config or an Error, and a config survives being printed and read again.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const turbolstm::Config config = turbolstm::ParseConfig(text, "fuzz");
    if (!(turbolstm::ParseConfig(turbolstm::FormatConfig(config), "printed") == config)) {
      __builtin_trap();
    }
  } catch (const turbolstm::Error&) {
  }
  try {
    turbolstm::ParseConfig("", "fuzz", {&text, 1});
  } catch (const turbolstm::Error&) {
  }
  return 0;
}
