#include "plan/auto_schedule.h"

#include <algorithm>
#include <bit>

#include "plan/dependencies.h"
#include "plan/schedule.h"

namespace turbolstm {
namespace {

// Rows that a part of a sum should have, so that reading and writing the sum is little beside it.
constexpr int64_t kRowsOfSum = 256;

// Less than an estimate can tell apart.
constexpr double kHardlyLonger = 1.02;

int64_t CeilDiv(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

class Search {
 public:
  Search(const LoweredGraph& graph, int64_t steps, int64_t batch, const PartitionOptions& asked)
      : graph_(graph), layout_(steps, batch), asked_(asked) {}

  std::vector<Candidate> Run() {
    for (const int64_t blocks : {1, 2, 4, 8, 16, 32, 64}) {
      for (int64_t tiles = 1; tiles < 2 * asked_.streams; tiles *= 2) {
        TryBoth(blocks, std::min<int64_t>(tiles, asked_.streams));
      }
    }
    const Proportions best = found_[Best()].proportions;
    TryBoth(best.blocks + CeilDiv(best.blocks, 2), best.tiles);
    TryBoth(best.blocks - best.blocks / 4, best.tiles);
    // Little work is done before another stream has heard of it.
    Try({.blocks = 0, .tiles = 1, .long_sums = false, .streams = 1});
    std::stable_sort(found_.begin(), found_.end(),
                     [](const Candidate& a, const Candidate& b) { return a.seconds < b.seconds; });
    const double close = kHardlyLonger * found_.front().seconds;
    auto fewest = found_.begin();
    for (auto it = fewest; it != found_.end() && it->seconds <= close; ++it) {
      if (it->tasks < fewest->tasks) fewest = it;
    }
    std::rotate(found_.begin(), fewest, fewest + 1);
    return std::move(found_);
  }

 private:
  void TryBoth(int64_t blocks, int64_t tiles) {
    const bool few_rows = layout_.rows() / std::max<int64_t>(1, blocks) < kRowsOfSum;
    Try({blocks, tiles, false, asked_.streams});
    if (few_rows && blocks > 1) Try({blocks, tiles, true, asked_.streams});
  }

  void Try(const Proportions& proportions) {
    const bool cuts_nothing = proportions.blocks > std::max<int64_t>(1, layout_.steps()) ||
                              proportions.tiles > std::max<int64_t>(1, layout_.batch());
    if (cuts_nothing ||
        std::ranges::find(found_, proportions, &Candidate::proportions) != found_.end()) {
      return;
    }
    const Partition partition =
        PartitionWork(graph_, layout_, CutsOf(proportions, layout_, asked_));
    const Schedule schedule =
        ListSchedule(partition.tasks, DeriveDependencies(partition.tasks), proportions.streams);
    found_.push_back({proportions, schedule.EstimatedSeconds(), partition.tasks.size()});
  }

  size_t Best() const {
    return static_cast<size_t>(std::min_element(found_.begin(), found_.end(),
                                                [](const Candidate& a, const Candidate& b) {
                                                  return a.seconds < b.seconds;
                                                }) -
                               found_.begin());
  }

  const LoweredGraph& graph_;
  const RowLayout layout_;
  const PartitionOptions asked_;
  std::vector<Candidate> found_;
};

}  // namespace

// Three leading bits of a number are enough to cut by.
int64_t BucketOf(int64_t steps) {
  const int bits = std::bit_width(static_cast<uint64_t>(steps));
  const int64_t unit = int64_t{1} << std::max(0, bits - 3);
  return CeilDiv(steps, unit) * unit;
}

PartitionOptions CutsOf(const Proportions& proportions, const RowLayout& layout,
                        PartitionOptions asked) {
  PartitionOptions cuts = asked;
  const int64_t steps = std::max<int64_t>(1, layout.steps());
  cuts.streams = proportions.streams;
  if (asked.time_block == 0 && proportions.blocks > 0) {
    cuts.time_block = CeilDiv(steps, proportions.blocks);
  }
  if (asked.row_tile == 0) {
    cuts.row_tile = CeilDiv(std::max<int64_t>(1, layout.batch()), proportions.tiles);
  }
  if (asked.sum_block == 0 && proportions.long_sums) cuts.sum_block = steps;
  if (cuts.time_block >= steps) cuts.step_parts = proportions.streams;
  return cuts;
}

std::vector<Candidate> RankedCandidates(const LoweredGraph& graph, int64_t steps, int64_t batch,
                                        const PartitionOptions& asked) {
  return Search(graph, steps, batch, asked).Run();
}

}  // namespace turbolstm
