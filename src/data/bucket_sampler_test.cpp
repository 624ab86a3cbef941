#include "data/bucket_sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/philox.h"
#include "data/batch.h"
#include "data/shuffle.h"

namespace turbolstm {
namespace {

std::vector<int64_t> RandomLengths(int64_t n, uint64_t seed) {
  const RandomSite random{.seed = seed};
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < n; ++i) lengths.push_back(random.Bits(static_cast<uint64_t>(i)) % 100);
  return lengths;
}

std::vector<std::vector<int64_t>> Epoch(BucketSampler& sampler, int64_t epoch) {
  sampler.StartEpoch(epoch);
  std::vector<std::vector<int64_t>> batches;
  while (!sampler.EpochDone()) batches.push_back(sampler.Next());
  return batches;
}

TEST(ShuffledIndices, IsAPermutationOfItsSiteAlone) {
  for (const int64_t n : {0, 1, 2, 1000}) {
    auto order = ShuffledIndices(n, {.seed = 1, .step = 2, .site = 3});
    EXPECT_EQ(order, ShuffledIndices(n, {.seed = 1, .step = 2, .site = 3}));
    std::sort(order.begin(), order.end());
    for (int64_t i = 0; i < n; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
  }
  EXPECT_NE(ShuffledIndices(100, {.seed = 1}), ShuffledIndices(100, {.seed = 2}));
  EXPECT_NE(ShuffledIndices(100, {.seed = 1}), ShuffledIndices(100, {.seed = 1, .step = 1}));
}

TEST(SplitHeldOut, CutsOffTheShareExactly) {
  for (const double share : {0.0, 0.1, 0.5, 1.0}) {
    const HeldOutSplit split = SplitHeldOut(1001, share, 7);
    EXPECT_EQ(static_cast<int64_t>(split.held_out.size()), std::llround(1001 * share));
    std::vector<int64_t> all = split.train;
    all.insert(all.end(), split.held_out.begin(), split.held_out.end());
    std::sort(all.begin(), all.end());
    EXPECT_EQ(std::unique(all.begin(), all.end()) - all.begin(), 1001);
    EXPECT_TRUE(std::is_sorted(split.train.begin(), split.train.end()));
  }
  EXPECT_TRUE(SplitHeldOut(0, 0.5, 7).train.empty());
  EXPECT_THROW(SplitHeldOut(10, 1.5, 7), Error);
  EXPECT_THROW(SplitHeldOut(10, -0.1, 7), Error);
}

struct SamplerCase {
  int64_t samples;
  int64_t batch;
  int64_t window;
  bool shuffle;
};

class BucketSamplerTest : public testing::TestWithParam<SamplerCase> {};

TEST_P(BucketSamplerTest, DealsEachSampleOncePerEpoch) {
  const auto [samples, batch, window, shuffle] = GetParam();
  const auto lengths = RandomLengths(samples, 1);
  BucketSampler sampler(lengths, {.batch = batch, .window = window, .shuffle = shuffle});
  EXPECT_EQ(sampler.BatchesPerEpoch(), samples / batch + (samples % batch != 0));
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    std::vector<int64_t> dealt;
    int64_t small = 0;
    for (const auto& ids : Epoch(sampler, epoch)) {
      small += static_cast<int64_t>(ids.size()) < batch;
      EXPECT_TRUE(std::is_sorted(ids.begin(), ids.end(), [&](int64_t a, int64_t b) {
        return lengths[static_cast<size_t>(a)] > lengths[static_cast<size_t>(b)];
      }));
      dealt.insert(dealt.end(), ids.begin(), ids.end());
    }
    EXPECT_LE(small, 1);
    std::sort(dealt.begin(), dealt.end());
    ASSERT_EQ(static_cast<int64_t>(dealt.size()), samples);
    for (int64_t i = 0; i < samples; ++i) EXPECT_EQ(dealt[static_cast<size_t>(i)], i);
  }
  EXPECT_THROW(sampler.Next(), Error);
}

TEST_P(BucketSamplerTest, RestoredSamplerDealsTheRest) {
  const auto [samples, batch, window, shuffle] = GetParam();
  const auto lengths = RandomLengths(samples, 1);
  const BucketOptions options{.batch = batch, .window = window, .shuffle = shuffle};
  BucketSampler first(lengths, options);
  first.StartEpoch(2);
  for (int64_t i = 0; i < first.BatchesPerEpoch() / 2; ++i) first.Next();
  BucketSampler second(lengths, options);
  second.Restore(first.State());
  EXPECT_EQ(second.State(), first.State());
  while (!first.EpochDone()) {
    ASSERT_FALSE(second.EpochDone());
    EXPECT_EQ(first.Next(), second.Next());
  }
  EXPECT_TRUE(second.EpochDone());
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, BucketSamplerTest,
    testing::Values(SamplerCase{0, 4, 2, true}, SamplerCase{1, 4, 2, true},
                    SamplerCase{8, 4, 2, true}, SamplerCase{9, 4, 2, true},
                    SamplerCase{1000, 32, 5, true}, SamplerCase{1000, 32, INT64_MAX, true},
                    SamplerCase{1000, 1, 1, true}, SamplerCase{1000, 32, 5, false},
                    SamplerCase{10, INT64_MAX, 1, true}, SamplerCase{0, 4, 2, false}));

TEST(BucketSampler, OrderDependsOnSeedAndEpoch) {
  const auto lengths = RandomLengths(500, 1);
  BucketSampler sampler(lengths, {.seed = 1});
  BucketSampler same(lengths, {.seed = 1});
  BucketSampler other(lengths, {.seed = 2});
  const auto first = Epoch(sampler, 0);
  EXPECT_NE(first, Epoch(sampler, 1));
  EXPECT_EQ(first, Epoch(sampler, 0));
  EXPECT_EQ(first, Epoch(same, 0));
  EXPECT_NE(first, Epoch(other, 0));
}

TEST(BucketSampler, LongBatchesComeAtAnyTime) {
  // Sorting must not turn an epoch into long texts first: the order of batches is shuffled.
  const auto lengths = RandomLengths(3200, 1);
  BucketSampler sampler(lengths, {.batch = 32, .window = 100});
  std::vector<int64_t> longest;
  for (const auto& ids : Epoch(sampler, 0)) longest.push_back(lengths[static_cast<size_t>(ids[0])]);
  EXPECT_FALSE(std::is_sorted(longest.rbegin(), longest.rend()));
}

TEST(BucketSampler, SortingSavesPadding) {
  const auto lengths = RandomLengths(6400, 1);
  const auto padded = [&](int64_t window) {
    return BucketSampler(lengths, {.batch = 32, .window = window}).Padding();
  };
  EXPECT_GT(padded(1).PaddedShare(), 0.4);
  EXPECT_LT(padded(50).PaddedShare(), 0.03);
  int64_t steps = 0;
  for (const int64_t length : lengths) steps += length;
  EXPECT_EQ(padded(50).valid_steps, steps);
  EXPECT_EQ(BucketSampler({}, {}).Padding().PaddedShare(), 0.0);
}

TEST(BucketSampler, PaddingIsThatOfTheBatchesMade) {
  const std::vector<int64_t> lengths = {3, 1, 2};
  const PaddingStatistics padding =
      BucketSampler(lengths, {.batch = 2, .shuffle = false}).Padding();  // {3, 2} and {1}
  EXPECT_EQ(padding.valid_steps, 6);
  EXPECT_EQ(padding.padded_steps, 1);
}

TEST(BucketSampler, RefusesBadOptionsAndStates) {
  const std::vector<int64_t> lengths = {1, 2, 3};
  EXPECT_THROW(BucketSampler(lengths, {.batch = 0}), Error);
  EXPECT_THROW(BucketSampler(lengths, {.window = 0}), Error);
  EXPECT_THROW(BucketSampler(std::vector<int64_t>{-1}, {}), Error);
  BucketSampler sampler(lengths, {.batch = 2});
  EXPECT_THROW(sampler.Restore({.epoch = 0, .next_batch = 3}), Error);
  EXPECT_THROW(sampler.Restore({.epoch = 0, .next_batch = -1}), Error);
  EXPECT_THROW(sampler.Restore({.epoch = -1, .next_batch = 0}), Error);
  sampler.Restore({.epoch = 4, .next_batch = 2});
  EXPECT_TRUE(sampler.EpochDone());
}

TEST(MakeBatch, IsTimeMajorSortedAndPadded) {
  const EncodedTexts texts{
      .tokens = {10, 20, 21, 22, 40, 41}, .offsets = {0, 1, 4, 4, 6}, .labels = {5, 6, 7, 8}};
  const std::vector<int64_t> ids = {0, 2, 3, 1};
  const Batch batch = MakeBatch(texts, ids);
  EXPECT_EQ(batch.T, 3);
  EXPECT_EQ(batch.B, 4);
  EXPECT_EQ(batch.sample_ids, (std::vector<int64_t>{1, 3, 0, 2}));
  EXPECT_EQ(batch.lengths, (std::vector<int32_t>{3, 2, 1, 0}));
  EXPECT_EQ(batch.labels, (std::vector<int32_t>{6, 8, 5, 7}));
  EXPECT_EQ(batch.tokens, (std::vector<int32_t>{20, 40, 10, 0,  //
                                                21, 41, 0, 0,   //
                                                22, 0, 0, 0}));
}

TEST(MakeBatch, EmptyIsLegalAndWrongIdsAreNot) {
  const EncodedTexts texts{.tokens = {}, .offsets = {0, 0}, .labels = {1}};
  EXPECT_EQ(MakeBatch(texts, {}).B, 0);
  const Batch batch = MakeBatch(texts, std::vector<int64_t>{0});
  EXPECT_EQ(batch.T, 0);
  EXPECT_EQ(batch.lengths, std::vector<int32_t>{0});
  EXPECT_THROW(MakeBatch(texts, std::vector<int64_t>{1}), Error);
  EXPECT_THROW(MakeBatch(texts, std::vector<int64_t>{-1}), Error);
}

}  // namespace
}  // namespace turbolstm
