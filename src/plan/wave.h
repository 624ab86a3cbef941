#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "plan/lowered.h"

namespace turbolstm {

// Groups that take turns block by block, in one direction, as far as they have been found.
class Wave {
 public:
  // save_memory: what a loop uses up takes turns with that loop: not with a wave before it that the
  // loop cannot join.
  Wave(const LoweredGraph& graph, bool save_memory) : graph_(graph), save_memory_(save_memory) {}

  bool empty() const { return groups_.empty(); }
  const std::vector<int32_t>& groups() const { return groups_; }
  bool IsReverse() const { return direction_ == Direction::kReverse; }

  // Whether the group has to stand behind the whole wave: it reads what the wave writes, or writes
  // where the wave reads or writes.
  bool ComesBefore(int32_t group) const;
  // Whether the group may take its turn within the wave: every block of it needs only blocks that
  // the wave has been through by then, and overwrites none that the wave still looks at in a later
  // turn.
  bool CanTake(int32_t group) const;
  void Take(int32_t group);
  // Whether a group behind this one writes where this one reads, which then has to be read block by
  // block.
  bool IsOverwritten(int32_t group) const;
  void Clear();

 private:
  const Group& group(int32_t id) const { return graph_.groups[static_cast<size_t>(id)]; }
  template <typename Visit, typename VisitWhole>
  void ForEachRead(const Group& g, Visit visit, VisitWhole visit_whole) const;
  bool WaitsForOtherWave(const Group& g, int32_t id) const;
  bool ReadsFromWave(const Group& g) const;
  bool ReadsResultOf(const Group& reader, const Group& g) const;

  const LoweredGraph& graph_;
  bool save_memory_;
  std::vector<int32_t> groups_;
  // Buffers that the wave writes, that it reads, and of those the ones that a block reads outside
  // its own steps.
  std::set<int32_t> written_, read_, read_across_blocks_;
  std::optional<Direction> direction_;
};

}  // namespace turbolstm
