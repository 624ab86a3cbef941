#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/lowered.h"
#include "plan/task.h"

namespace turbolstm {

// When a group runs: turns follow each other. The groups of one turn either are a single one, or
// go through time together, block by block.
struct GroupTurn {
  int32_t group = 0;
  int32_t turn = 0;
  bool blockwise = false;
};

// Where computed Step values lie if memory is to be saved. A buffer that the groups of one
// blockwise turn touch only, each at its own steps, is a ring of blocks: block i lies where block i
// - count lay. Buffers of the same kind whose turns do not meet lie in the same place. By default
// every buffer has a place of its own and holds all steps.
class BufferPlaces {
 public:
  BufferPlaces() = default;
  // time_block: steps of a block.
  BufferPlaces(const LoweredGraph& graph, std::span<const GroupTurn> turns, int64_t steps,
               int64_t time_block);

  // Makes accesses name places.
  void Apply(std::span<Task> tasks) const;

  // The buffer in whose place this one lies: itself, or one before it.
  int32_t place_of(int32_t buffer) const {
    return place_of_.empty() ? buffer : place_of_[static_cast<size_t>(buffer)];
  }
  bool IsRing(int32_t buffer) const { return !ring_.empty() && ring_[static_cast<size_t>(buffer)]; }
  static constexpr int64_t kBlocks = 3;  // of a ring
  int64_t time_block() const { return time_block_; }
  // Which block of a ring holds a step.
  int64_t BlockOf(int64_t time) const { return time / time_block_ % kBlocks; }

 private:
  struct Life {
    int32_t first = -1, last = -1;  // turns
    bool in_blocks = true;          // touched at the step of whoever touches it, in one turn
  };

  static std::vector<Life> LivesOf(const LoweredGraph& graph, std::span<const GroupTurn> turns);
  void Share(const LoweredGraph& graph, const std::vector<Life>& lives);

  int64_t time_block_ = 1;
  std::vector<bool> ring_;         // by buffer
  std::vector<int32_t> place_of_;  // by buffer
};

}  // namespace turbolstm
