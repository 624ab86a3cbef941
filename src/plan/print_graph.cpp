#include <fmt/core.h>

#include <array>

#include "plan/print.h"

namespace turbolstm {
namespace {

constexpr std::array kColours = {"lightblue", "palegreen", "khaki",  "lightsalmon",
                                 "plum",      "lightgrey", "orange", "aquamarine"};

std::string Quoted(std::string_view text) {
  std::string quoted;
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted;
}

}  // namespace

std::string PrintTaskGraph(std::span<const Task> tasks, const Dependencies& dependencies,
                           const Schedule* schedule) {
  std::vector<size_t> stream_of(tasks.size(), 0);
  if (schedule != nullptr) {
    for (size_t s = 0; s < schedule->streams.size(); ++s) {
      for (const int32_t task : schedule->streams[s]) stream_of[task] = s;
    }
  }
  std::string text = "digraph tasks {\n  node [shape=box, style=filled];\n";
  for (size_t t = 0; t < tasks.size(); ++t) {
    const char* colour = schedule == nullptr ? "white" : kColours[stream_of[t] % kColours.size()];
    text += fmt::format("  t{} [label=\"{} {}\\n{:.3f} us\", fillcolor={}];\n", t, t,
                        Quoted(tasks[t].name), 1e6 * tasks[t].cost, colour);
  }
  for (size_t t = 0; t < tasks.size(); ++t) {
    for (const int32_t before : dependencies[t]) text += fmt::format("  t{} -> t{};\n", before, t);
  }
  return text + "}\n";
}

}  // namespace turbolstm
