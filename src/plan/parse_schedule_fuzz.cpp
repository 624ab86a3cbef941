#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "plan/dependencies.h"
#include "plan/example_tasks.h"
#include "plan/print.h"

// A text either is refused with an Error or gives a schedule that is read back the same.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace turbolstm;
  static const std::vector<Task> tasks = StackedLayers(1, 1, 1);
  static const Dependencies dependencies = DeriveDependencies(tasks);
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  Schedule schedule;
  try {
    schedule = ParseSchedule(text, tasks, dependencies);
  } catch (const Error&) {
    return 0;
  }
  const std::string printed = PrintSchedule(tasks, dependencies, schedule);
  if (ParseSchedule(printed, tasks, dependencies).streams != schedule.streams) __builtin_trap();
  return 0;
}
