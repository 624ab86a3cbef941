#include "train/config_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

namespace turbolstm {
namespace {

constexpr int64_t kLargestSize = 1 << 20;
constexpr int64_t kLargestInteger = std::numeric_limits<int64_t>::max();
constexpr double kLargestNumber = 1e6;

#define TL_FIELD(place) [](Config& config) -> ConfigField { return &config.place; }

std::vector<ConfigKey> MakeTable() {
  return {
      {"data", "kind", TL_FIELD(data.kind), TextRange{{"snippets", "imdb", "tsv"}},
       "where samples come from: the movie-review snippets that scripts/fetch_sentiment.sh gets, "
       "an "
       "unpacked aclImdb folder, or a file of lines 'id<tab>rating<tab>text'"},
      {"data", "path", TL_FIELD(data.path), TextRange{},
       "file or folder of the samples; empty: the place where the kind's script puts them"},
      {"data", "vocabulary", TL_FIELD(data.vocabulary), IntegerRange{2, kLargestSize},
       "words with an embedding of their own, the most frequent ones; includes <pad> and <unk>"},
      {"data", "max_length", TL_FIELD(data.max_length), IntegerRange{1, kLargestSize},
       "words of a text that are read"},
      {"data", "keep", TL_FIELD(data.keep), TextRange{{"head", "tail"}},
       "which end of a longer text is read"},
      {"data", "neutral_below", TL_FIELD(data.neutral_below), NumberRange{0, 100},
       "ratings closer to 0 than this are left out (snippets and tsv)"},
      {"data", "held_out", TL_FIELD(data.held_out), NumberRange{0, 0.9},
       "share of the samples kept from training (imdb brings its own test set)"},
      {"data", "seed", TL_FIELD(data.seed), IntegerRange{0, kLargestInteger},
       "decides which samples are held out"},

      {"model", "cell", TL_FIELD(model.cell), TextRange{},
       "recurrent cell; 'turbolstm cells' lists them"},
      {"model", "embedding", TL_FIELD(model.embedding), IntegerRange{1, kLargestSize},
       "features of a word"},
      {"model", "hidden", TL_FIELD(model.hidden), IntegerRange{1, kLargestSize},
       "units of a layer and direction"},
      {"model", "projection", TL_FIELD(model.projection), IntegerRange{0, kLargestSize},
       "size of the output of cells that project it; 0: none"},
      {"model", "layers", TL_FIELD(model.layers), IntegerRange{1, 1024}, "stacked layers"},
      {"model", "bidirectional", TL_FIELD(model.bidirectional), FlagRange{},
       "whether each layer also reads backwards"},
      {"model", "dropout", TL_FIELD(model.dropout), NumberRange{0, 1},
       "probability of zeroing an input of a layer or of the classifier while training"},
      {"model", "pooling", TL_FIELD(model.pooling), TextRange{{"last", "mean", "max"}},
       "how the steps of a text become one vector"},
      {"model", "precision", TL_FIELD(model.precision),
       TextRange{{"fp32", "tf32", "bf16", "fp16", "bf16x6"}},
       "numbers of the recurrent layers; cell states and sums are fp32 in all. tf32, fp16 and "
       "bf16x6 need a GPU; in fp16 the loss is scaled; bf16x6 is as exact as fp32, with products "
       "out of bf16 ones"},

      {"train", "epochs", TL_FIELD(train.epochs), IntegerRange{0, 1'000'000},
       "passes over the training samples"},
      {"train", "batch", TL_FIELD(train.batch), IntegerRange{1, kLargestSize}, "samples a step"},
      {"train", "optimizer", TL_FIELD(train.optimizer), TextRange{{"adam", "adamw", "sgd"}},
       "update rule"},
      {"train", "learning_rate", TL_FIELD(train.learning_rate), NumberRange{0, kLargestNumber},
       "step size"},
      {"train", "weight_decay", TL_FIELD(train.weight_decay), NumberRange{0, kLargestNumber},
       "L2 penalty (adam, sgd) or decoupled decay (adamw)"},
      {"train", "momentum", TL_FIELD(train.momentum), NumberRange{0, 1}, "of sgd"},
      {"train", "clip_norm", TL_FIELD(train.clip_norm), NumberRange{0, kLargestNumber},
       "largest norm of all gradients together; 0: no limit"},
      {"train", "seed", TL_FIELD(train.seed), IntegerRange{0, kLargestInteger},
       "decides initial weights, order of samples and dropout"},
      {"train", "threads", TL_FIELD(train.threads), IntegerRange{0, 4096},
       "worker threads of the CPU; 0: one a core"},
      {"train", "device", TL_FIELD(train.device), TextRange{},
       "auto, cpu, cuda or cuda:<number>; auto takes the first GPU that answers, else the CPU"},
      {"train", "recompute", TL_FIELD(train.recompute), FlagRange{},
       "less memory for more time: gates are not kept for the backward pass but computed again"},
      {"train", "schedule", TL_FIELD(train.schedule),
       TextRange{
           {"sequential", "whole-window", "wavefront", "cell-wavefront", "turbolstm", "auto"}},
       "how the work is cut and ordered on the CPU; 'turbolstm plan --compare' compares them"},
      {"train", "tune", TL_FIELD(train.tune), NumberRange{0, 3600},
       "seconds to measure plans in for each new shape, on the CPU, with schedule auto; what is "
       "found "
       "is kept for other runs. Which plan is fastest may differ from run to run, and then the "
       "last "
       "bits of gradients do; 0: nothing is measured"},
      {"train", "plan", TL_FIELD(train.plan), TextRange{},
       "a file that 'turbolstm plan --print' wrote: the plan of batches of its shape on the CPU"},

      {"output", "directory", TL_FIELD(output.directory), TextRange{},
       "folder for the checkpoint, vocabulary, resolved config and log"},
  };
}

#undef TL_FIELD

// Levenshtein distance.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

struct WantedText {
  std::string operator()(const TextRange& range) const {
    return range.choices.empty() ? "text"
                                 : fmt::format("one of {}", fmt::join(range.choices, ", "));
  }
  std::string operator()(const IntegerRange& range) const {
    return range.most == kLargestInteger
               ? fmt::format("an integer of at least {}", range.least)
               : fmt::format("an integer from {} to {}", range.least, range.most);
  }
  std::string operator()(const NumberRange& range) const {
    return fmt::format("a number from {} to {}", range.least, range.most);
  }
  std::string operator()(const FlagRange&) const { return "true or false"; }
};

}  // namespace

const std::vector<ConfigKey>& ConfigTable() {
  static const std::vector<ConfigKey> table = MakeTable();
  return table;
}

std::string Wanted(const ConfigRange& range) {
  return std::visit(WantedText{}, range);
}

const ConfigKey* FindConfigKey(std::string_view section, std::string_view name) {
  for (const ConfigKey& key : ConfigTable()) {
    if (key.section == section && key.name == name) return &key;
  }
  return nullptr;
}

std::string NearestConfigKey(std::string_view section, std::string_view name) {
  // The right name in the wrong section is nearer than any misspelling of two letters.
  const auto distance = [&](const ConfigKey& key) {
    return EditDistance(key.name, name) + (key.section == section ? 0 : 2);
  };
  const auto& table = ConfigTable();
  const auto nearest = std::min_element(
      table.begin(), table.end(),
      [&](const ConfigKey& a, const ConfigKey& b) { return distance(a) < distance(b); });
  return fmt::format("{}.{}", nearest->section, nearest->name);
}

std::string_view NearestConfigSection(std::string_view section) {
  const auto& table = ConfigTable();
  return std::min_element(table.begin(), table.end(),
                          [&](const ConfigKey& a, const ConfigKey& b) {
                            return EditDistance(a.section, section) <
                                   EditDistance(b.section, section);
                          })
      ->section;
}

}  // namespace turbolstm
