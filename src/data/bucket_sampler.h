#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace turbolstm {

struct BucketOptions {
  int64_t batch = 32;  // samples a batch, >= 1; the last batch of an epoch may be smaller
  // Batches that are cut from one stretch of shuffled samples after sorting it by length: more of
  // them, less padding and less randomness. >= 1.
  int64_t window = 50;
  bool shuffle = true;  // false: all samples by descending length, the same every epoch
  uint64_t seed = 1;
};

// Where a sampler stands: all that a checkpoint needs.
struct SamplerState {
  int64_t epoch = 0;
  int64_t next_batch = 0;

  bool operator==(const SamplerState&) const = default;
};

struct PaddingStatistics {
  int64_t valid_steps = 0;   // steps of samples
  int64_t padded_steps = 0;  // steps added to reach the longest of each batch

  // 0 when there is nothing at all.
  double PaddedShare() const;
};

// Deals samples of similar length into batches. An epoch holds each sample exactly once, and its
// batches depend on the lengths, the options and the epoch's number alone.
class BucketSampler {
 public:
  // lengths [N], each >= 0; N = 0 gives epochs without batches.
  BucketSampler(std::span<const int64_t> lengths, const BucketOptions& options);

  int64_t BatchesPerEpoch() const { return static_cast<int64_t>(batch_order_.size()); }
  bool EpochDone() const { return state_.next_batch == BatchesPerEpoch(); }

  // Sample ids of the next batch, the longest first. Throws Error when the epoch is done.
  std::vector<int64_t> Next();
  void StartEpoch(int64_t epoch);

  SamplerState State() const { return state_; }
  // Throws Error when the state cannot come from a sampler over as many batches.
  void Restore(const SamplerState& state);

  // Of the whole current epoch.
  PaddingStatistics Padding() const;

 private:
  std::span<const int64_t> BatchAt(int64_t batch) const;
  void SortByLength(std::span<int64_t> ids) const;

  std::vector<int64_t> lengths_;
  BucketOptions options_;
  SamplerState state_;
  std::vector<int64_t> samples_;      // [N] of this epoch, batch after batch
  std::vector<int64_t> batch_order_;  // which batch of samples_ comes when
};

}  // namespace turbolstm
