#include "execution/turns.h"

#include <algorithm>

namespace turbolstm {
namespace {

bool Touches(const Stage& stage, const View& view) {
  const auto meets = [&](const View& other) { return Overlaps(other, view); };
  return std::any_of(stage.outputs.begin(), stage.outputs.end(), meets) ||
         std::any_of(stage.inputs.begin(), stage.inputs.end(), [&](const Operand& operand) {
           return meets(operand.view) || meets(operand.init);
         });
}

// Whether a group reads or writes what another one writes.
bool TouchesResultsOf(const Group& writer, const Group& other) {
  for (const Stage& written : writer.stages) {
    for (const View& view : written.outputs) {
      for (const Stage& stage : other.stages) {
        if (Touches(stage, view)) return true;
      }
    }
  }
  return false;
}

bool MayRunAtOnce(const Group& a, const Group& b) {
  return a.is_loop() && b.is_loop() && !TouchesResultsOf(a, b) && !TouchesResultsOf(b, a);
}

}  // namespace

std::vector<int64_t> Turns(const LoweredGraph& graph) {
  std::vector<int64_t> turns;
  for (size_t g = 0; g < graph.groups.size(); ++g) {
    const bool second = g > 1 && turns[g - 1] == turns[g - 2];
    const bool joins = g > 0 && !second && g != graph.first_late &&
                       MayRunAtOnce(graph.groups[g - 1], graph.groups[g]);
    turns.push_back(g == 0 ? 0 : turns[g - 1] + (joins ? 0 : 1));
  }
  return turns;
}

}  // namespace turbolstm
