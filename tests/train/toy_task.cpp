#include "train/toy_task.h"

#include <fmt/format.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/philox.h"

namespace turbolstm {
namespace {

std::vector<TextSample> MakeSamples(int64_t count, uint32_t site) {
  const RandomSite random{7, 0, site};
  std::vector<TextSample> samples;
  for (int64_t i = 0; i < count; ++i) {
    const auto draw = [&](uint64_t j) { return random.Bits(static_cast<uint64_t>(i) * 32 + j); };
    const uint32_t length = 1 + draw(0) % 12;
    const uint32_t place = draw(1) % length;
    const int32_t label = static_cast<int32_t>(i % 2);
    std::string text;
    for (uint32_t word = 0; word < length; ++word) {
      text += word == place ? (label == 1 ? "good " : "bad ")
                            : fmt::format("word{} ", draw(2 + word) % 20);
    }
    samples.push_back({fmt::format("{}", i), text, label});
  }
  return samples;
}

}  // namespace

TextTask MakeToyTask(int64_t train, int64_t held_out) {
  const TextData data{{"negative", "positive"}, MakeSamples(train, 1), MakeSamples(held_out, 2)};
  return MakeTextTask(data, ToyConfig().data);
}

Config ToyConfig() {
  Config config;
  config.model.embedding = 12;
  config.model.hidden = 16;
  config.train.epochs = 3;
  config.train.batch = 16;
  config.train.learning_rate = 0.01;
  config.train.threads = 2;
  config.train.device = "cpu";
  return config;
}

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "turbolstm_XXXXXX").string();
  TL_CHECK(mkdtemp(name.data()) != nullptr, "[test] cannot make {}", name);
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace turbolstm
