#pragma once

#include <cstdint>
#include <vector>

#include "plan/partition.h"

namespace turbolstm {

// Cuts in proportion to a shape.
struct Proportions {
  int64_t blocks = 1;      // of time; 0: as many as BlockInCache makes
  int64_t tiles = 1;       // of sequences
  bool long_sums = false;  // sums over rows go over all steps, not block by block
  int streams = 1;

  friend bool operator==(const Proportions&, const Proportions&) = default;
};

// A point of the space of schedules and what it is expected to take.
struct Candidate {
  Proportions proportions;
  double seconds = 0;
  size_t tasks = 0;
};

// Shapes of a bucket are cut in the same proportions: so many steps stand for all that are near.
int64_t BucketOf(int64_t steps);

// Points of the space by estimated time, the least first, but that of those which take hardly
// longer than the least the one with the fewest tasks stands in front; for a shape whose steps are
// a bucket's. A function of its arguments. What `asked` gives stays; its streams are the most there
// are.
std::vector<Candidate> RankedCandidates(const LoweredGraph& graph, int64_t steps, int64_t batch,
                                        const PartitionOptions& asked);

// What `asked` leaves open, cut in proportion.
PartitionOptions CutsOf(const Proportions& proportions, const RowLayout& layout,
                        PartitionOptions asked);

}  // namespace turbolstm
