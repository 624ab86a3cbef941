#include "data/bucket_sampler.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "data/random_sites.h"
#include "data/shuffle.h"

namespace turbolstm {

double PaddingStatistics::PaddedShare() const {
  const int64_t steps = valid_steps + padded_steps;
  return steps == 0 ? 0.0 : static_cast<double>(padded_steps) / static_cast<double>(steps);
}

BucketSampler::BucketSampler(std::span<const int64_t> lengths, const BucketOptions& options)
    : lengths_(lengths.begin(), lengths.end()), options_(options) {
  TL_CHECK(options.batch >= 1, "[sampler] batch is {}, wants at least 1", options.batch);
  TL_CHECK(options.window >= 1, "[sampler] window is {}, wants at least 1", options.window);
  // Larger ones mean the same, and products of these two must not overflow.
  options_.batch = std::min(options_.batch, std::max<int64_t>(1, std::ssize(lengths_)));
  for (size_t i = 0; i < lengths_.size(); ++i) {
    TL_CHECK(lengths_[i] >= 0, "[sampler] length {} is {}, wants at least 0", i, lengths_[i]);
  }
  StartEpoch(0);
}

void BucketSampler::SortByLength(std::span<int64_t> ids) const {
  std::stable_sort(ids.begin(), ids.end(), [&](int64_t a, int64_t b) {
    return lengths_[static_cast<size_t>(a)] > lengths_[static_cast<size_t>(b)];
  });
}

void BucketSampler::StartEpoch(int64_t epoch) {
  TL_CHECK(epoch >= 0 && epoch <= int64_t{UINT32_MAX}, "[sampler] epoch is {}, wants 0 to {}",
           epoch, UINT32_MAX);
  state_ = {.epoch = epoch, .next_batch = 0};
  const auto samples = static_cast<int64_t>(lengths_.size());
  const int64_t batches = samples / options_.batch + (samples % options_.batch == 0 ? 0 : 1);
  const auto step = static_cast<uint32_t>(epoch);
  if (!options_.shuffle) {
    samples_.resize(lengths_.size());
    std::iota(samples_.begin(), samples_.end(), int64_t{0});
    SortByLength(samples_);
    batch_order_.resize(static_cast<size_t>(batches));
    std::iota(batch_order_.begin(), batch_order_.end(), int64_t{0});
    return;
  }
  samples_ =
      ShuffledIndices(samples, {.seed = options_.seed, .step = step, .site = kSampleOrderSite});
  const int64_t window = std::min(options_.window, batches) * options_.batch;
  for (int64_t first = 0; first < samples; first += window) {
    const int64_t size = std::min(window, samples - first);
    SortByLength(
        std::span(samples_).subspan(static_cast<size_t>(first), static_cast<size_t>(size)));
  }
  batch_order_ =
      ShuffledIndices(batches, {.seed = options_.seed, .step = step, .site = kBatchOrderSite});
}

std::span<const int64_t> BucketSampler::BatchAt(int64_t batch) const {
  const int64_t first = batch * options_.batch;
  const int64_t size = std::min(options_.batch, static_cast<int64_t>(samples_.size()) - first);
  return std::span(samples_).subspan(static_cast<size_t>(first), static_cast<size_t>(size));
}

std::vector<int64_t> BucketSampler::Next() {
  TL_CHECK(!EpochDone(), "[sampler] epoch {} has {} batches and no more", state_.epoch,
           BatchesPerEpoch());
  const auto batch = BatchAt(batch_order_[static_cast<size_t>(state_.next_batch++)]);
  return {batch.begin(), batch.end()};
}

void BucketSampler::Restore(const SamplerState& state) {
  TL_CHECK(state.next_batch >= 0 && state.next_batch <= BatchesPerEpoch(),
           "[sampler] position {} is not in [0, {}]: saved over other data or batches?",
           state.next_batch, BatchesPerEpoch());
  StartEpoch(state.epoch);
  state_.next_batch = state.next_batch;
}

PaddingStatistics BucketSampler::Padding() const {
  PaddingStatistics padding;
  for (int64_t batch = 0; batch < BatchesPerEpoch(); ++batch) {
    const auto ids = BatchAt(batch);
    const int64_t longest = lengths_[static_cast<size_t>(ids.front())];
    for (const int64_t id : ids) {
      const int64_t length = lengths_[static_cast<size_t>(id)];
      padding.valid_steps += length;
      padding.padded_steps += longest - length;
    }
  }
  return padding;
}

}  // namespace turbolstm
