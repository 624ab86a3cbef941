#include "train/config.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/error_test.h"
#include "train/config_keys.h"

namespace turbolstm {
namespace {

std::string ErrorOf(std::string_view toml, const std::vector<std::string>& overrides = {}) {
  return turbolstm::ErrorOf([&] { ParseConfig(toml, "my.toml", overrides); });
}

TEST(Config, EmptyFileGivesTheDefaults) {
  EXPECT_EQ(ParseConfig("", "x"), Config{});
}

TEST(Config, ReadsEveryType) {
  const Config config = ParseConfig(R"(
[data]
kind = "imdb"
path = "some/folder"
held_out = 0.25
[model]
hidden = 256
bidirectional = true
dropout = 1   # an integer is a number
[train]
learning_rate = 5e-4
)",
                                    "x");
  EXPECT_EQ(config.data.kind, "imdb");
  EXPECT_EQ(config.data.path, "some/folder");
  EXPECT_EQ(config.data.held_out, 0.25);
  EXPECT_EQ(config.model.hidden, 256);
  EXPECT_TRUE(config.model.bidirectional);
  EXPECT_EQ(config.model.dropout, 1.0);
  EXPECT_EQ(config.train.learning_rate, 5e-4);
  EXPECT_EQ(config.train.batch, TrainConfig{}.batch);
}

TEST(Config, PrintedConfigReadsBack) {
  Config config;
  config.data.path = "a \"quoted\"\\ päth\n";
  config.train.learning_rate = 1.0 / 3;
  config.train.weight_decay = 1e-300;
  config.model.bidirectional = true;
  config.train.seed = INT64_MAX;
  EXPECT_EQ(ParseConfig(FormatConfig(config), "printed"), config);
}

TEST(Config, DefaultsAreInRange) {
  EXPECT_EQ(ParseConfig(FormatConfig({}), "printed"), Config{});
}

TEST(Config, EveryKeyHasAFieldOfItsOwnAndOfItsType) {
  Config config;
  std::vector<ConfigField> fields;
  for (const ConfigKey& key : ConfigTable()) {
    const ConfigField field = key.field(config);
    EXPECT_EQ(field.index(), key.range.index()) << key.name;
    EXPECT_EQ(std::count(fields.begin(), fields.end(), field), 0) << key.name;
    EXPECT_FALSE(key.help.empty()) << key.name;
    fields.push_back(field);
  }
  EXPECT_EQ(ConfigKeys().size(), ConfigTable().size());
}

TEST(Config, OverridesApplyInOrderAndTextNeedsNoQuotes) {
  const std::vector<std::string> overrides = {
      "data.kind=imdb",   "data.path=/a b=c",         "train.batch=7",         "train.batch=8",
      "model.dropout=.5", "model.bidirectional=true", "model.pooling=\"max\"", "output.directory="};
  EXPECT_NE(ErrorOf("", overrides).find("model.dropout"), std::string::npos);  // TOML wants 0.5
  std::vector<std::string> valid = overrides;
  valid[4] = "model.dropout=0.5";
  const Config config = ParseConfig("[train]\nbatch = 1\n", "x", valid);
  EXPECT_EQ(config.data.kind, "imdb");
  EXPECT_EQ(config.data.path, "/a b=c");
  EXPECT_EQ(config.train.batch, 8);
  EXPECT_EQ(config.model.dropout, 0.5);
  EXPECT_TRUE(config.model.bidirectional);
  EXPECT_EQ(config.model.pooling, "max");
  EXPECT_EQ(config.output.directory, "");
}

TEST(ConfigErrors, UnknownKeyNamesPlaceAndNearestKey) {
  ExpectParts(ErrorOf("[train]\n  learnig_rate = 1\n"),
              {"my.toml:2:3", "'train.learnig_rate'", "'train.learning_rate'"});
  ExpectParts(ErrorOf("[model]\nepochs = 1\n"), {"'model.epochs'", "'train.epochs'"});
  ExpectParts(ErrorOf("[trian]\nepochs = 1\n"), {"my.toml:1:", "'trian'", "'train'"});
  ExpectParts(ErrorOf("trian.epochs = 1\n"), {"my.toml:1:", "'trian'", "'train'"});
  ExpectParts(ErrorOf("", {"train.epoch=1"}), {"override 'train.epoch=1'", "'train.epochs'"});
  ExpectParts(ErrorOf("", {"moddel.hidden=1"}), {"'moddel.hidden'", "'model.hidden'"});
}

TEST(ConfigErrors, WrongTypeOrRangeSaysWhatCameAndWhatWasWanted) {
  ExpectParts(ErrorOf("[train]\nbatch = 0\n"), {"my.toml:2:1", "train.batch", "is 0", "from 1 to"});
  ExpectParts(ErrorOf("[train]\nbatch = 1.5\n"), {"is 1.5", "an integer"});
  ExpectParts(ErrorOf("[train]\nbatch = \"1\"\n"), {"text \"1\"", "an integer"});
  ExpectParts(ErrorOf("[model]\ndropout = 1.5\n"), {"is 1.5", "a number from 0 to 1"});
  ExpectParts(ErrorOf("[model]\ndropout = nan\n"), {"nan", "a number from 0 to 1"});
  ExpectParts(ErrorOf("[train]\nlearning_rate = inf\n"), {"inf", "a number from 0"});
  ExpectParts(ErrorOf("[model]\nbidirectional = 1\n"), {"is 1", "true or false"});
  ExpectParts(ErrorOf("[model]\npooling = \"median\"\n"), {"median", "one of last, mean, max"});
  ExpectParts(ErrorOf("[model]\nhidden = [1]\n"), {"an array", "an integer"});
  ExpectParts(ErrorOf("[model.hidden]\na = 1\n"), {"a table", "an integer"});
  ExpectParts(ErrorOf("[train]\nseed = 2024-01-01\n"), {"a date or time", "an integer"});
  ExpectParts(ErrorOf("model = 1\n"), {"'model' is 1", "a section"});
  ExpectParts(ErrorOf("[[model]]\nhidden = 1\n"), {"'model' is an array", "a section"});
}

TEST(ConfigErrors, BrokenTomlAndOverridesNameThePlace) {
  ExpectParts(ErrorOf("[train\n"), {"my.toml:1:", "not valid TOML"});
  ExpectParts(ErrorOf("[train]\nbatch = 1\nbatch = 2\n"), {"my.toml:3:", "not valid TOML"});
  ExpectParts(ErrorOf("[train]\nbatch = \xff\n"), {"my.toml:2:", "not valid TOML"});
  ExpectParts(ErrorOf("", {"train.batch"}), {"override 'train.batch'", "section.key=value"});
  ExpectParts(ErrorOf("", {"batch=1.5"}), {"override 'batch=1.5'", "section.key=value"});
  ExpectParts(ErrorOf("", {"train.batch="}), {"train.batch", "an integer"});
  ExpectParts(ErrorOf("", {"train.batch=1\nother=2"}), {"wants one"});
}

TEST(ConfigErrors, MissingFileIsNamed) {
  EXPECT_THROW(LoadConfig("/absent/my.toml"), Error);
  EXPECT_THROW(LoadConfig("/"), Error);
  try {
    LoadConfig("/absent/my.toml");
  } catch (const Error& error) {
    ExpectParts(error.what(), {"/absent/my.toml", "No such file"});
  }
}

TEST(Config, LoadsAFile) {
  const auto path =
      std::filesystem::temp_directory_path() / fmt::format("turbolstm_config_{}", ::getpid());
  std::ofstream(path) << "[train]\nepochs = 9\n";
  const std::vector<std::string> overrides = {"train.batch=3"};
  const Config config = LoadConfig(path, overrides);
  std::filesystem::remove(path);
  EXPECT_EQ(config.train.epochs, 9);
  EXPECT_EQ(config.train.batch, 3);
}

}  // namespace
}  // namespace turbolstm
