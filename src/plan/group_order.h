#pragma once

#include <cstdint>
#include <vector>

namespace turbolstm {

// Groups of nodes, and which of them each needs to stand behind.
struct GroupNeeds {
  enum class Kind : uint8_t { kOther, kLoop, kSum, kRecomputed };

  std::vector<std::vector<int32_t>> needs;  // by group, ascending
  std::vector<Kind> kinds;                  // by group; a sum goes over rows
  std::vector<int32_t> outputs;             // groups that the graph is run for
};

// An order in which what groups make is used soon. Operands stand directly before their first
// reader, recomputed ones last. A sum over rows stands where its operands are complete, so that
// those need not wait for it. All that is recomputed together (connected by reads) stands before
// the first loop that reads any of it: the loop may overwrite that.
std::vector<int32_t> OrderWithShortLives(const GroupNeeds& groups);

}  // namespace turbolstm
