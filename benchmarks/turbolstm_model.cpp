#include "turbolstm_model.h"

#include "base/error.h"
#include "base/philox.h"
#include "train/model_factory.h"

namespace turbolstm::bench {
namespace {

Config ConfigOf(const Run& run, const Options& options) {
  const Case& c = *run.what;
  TL_CHECK(c.model == "imdb", "[bench] there is no model '{}'", c.model);
  Config config;
  config.model.embedding = c.I;
  config.model.hidden = c.H;
  config.model.layers = c.L;
  config.model.pooling = "mean";
  config.model.precision = run.precision;
  config.train.clip_norm = 0;
  config.train.recompute = options.recompute;
  config.train.schedule = options.schedule;
  return config;
}

Batch RandomBatch(const Case& c) {
  Batch batch;
  batch.T = c.T;
  batch.B = c.B;
  batch.lengths.assign(static_cast<size_t>(c.B), static_cast<int32_t>(c.T));
  const RandomSite words{.seed = 1, .step = 0, .site = 0};
  for (int64_t i = 0; i < c.T * c.B; ++i) {
    batch.tokens.push_back(static_cast<int32_t>(words.Bits(static_cast<uint64_t>(i)) %
                                                static_cast<uint32_t>(c.vocabulary)));
  }
  const RandomSite labels{.seed = 1, .step = 0, .site = 1};
  for (int64_t b = 0; b < c.B; ++b) {
    batch.labels.push_back(static_cast<int32_t>(labels.Bits(static_cast<uint64_t>(b)) %
                                                static_cast<uint32_t>(c.classes)));
  }
  return batch;
}

}  // namespace

BenchedModel::BenchedModel(const Run& run, const Options& options)
    : config_(ConfigOf(run, options)),
      model_(MakeClassifier(config_.model, run.what->vocabulary, run.what->classes)),
      parameters_(model_->parameters(), 1),
      batch_(RandomBatch(*run.what)) {}

void MeasureModelOnCpu(const Run& run, const Options& options, Report* report) {
  BenchedModel benched(run, options);
  const auto step = MakeTrainingStep(benched.model(), benched.parameters(), benched.config(), {},
                                     std::make_shared<StreamPool>(options.threads));
  report->Add(run, Measure([&] { step->Train(benched.batch(), 0); }, options.min_seconds));
}

}  // namespace turbolstm::bench
