#include "train/checkpoint.h"

#include <gtest/gtest.h>

#include "base/error_test.h"
#include "train/parameters.h"
#include "train/run_directory.h"
#include "train/toy_task.h"

namespace turbolstm {
namespace {

TEST(Checkpoint, ReadsBackWhatWasWritten) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "c.safetensors";
  CheckpointHeader header{ToyConfig(), {"no", "\"yes\", ü"}, {}};
  header.progress = {12, {3, 4}, 1.0 / 3, 96, 12, 1e-5, 3, 2, 0.7};
  header.config.output.directory = "somewhere";
  SaveCheckpoint(path, header, {MakeTensor("w", {2}, std::vector<float>{1, 2})});
  const Checkpoint read = LoadCheckpoint(path);
  EXPECT_EQ(read.header.progress, header.progress);
  EXPECT_EQ(read.header.labels, header.labels);
  header.config.output.directory = "";
  header.config.train.device = "auto";
  EXPECT_EQ(read.header.config, header.config);
  EXPECT_EQ(read.file.At("w").bytes.size(), 8);
}

TEST(Checkpoint, WhatIsWrongInItsMetadataIsNamed) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "c.safetensors";
  SaveCheckpoint(path, {ToyConfig(), {"a"}, {}}, {});
  const SafetensorsFile good = ReadSafetensors(path);
  const auto error_with = [&](const std::string& key, const std::string& value) {
    SafetensorsFile bad = good;
    bad.metadata[key] = value;
    WriteSafetensors(path, bad);
    return ErrorOf([&] { LoadCheckpoint(path); });
  };
  ExpectParts(error_with("step", "1x"), {path.string(), "'step'", "'1x'", "a number"});
  ExpectParts(error_with("labels", "{}"), {path.string(), "'labels'", "JSON array"});
  ExpectParts(error_with("labels", "[1]"), {path.string(), "'labels'", "texts"});
  ExpectParts(error_with("config", "[modl]"), {path.string(), "'modl'"});
  WriteSafetensors(path, {});
  ExpectParts(ErrorOf([&] { LoadCheckpoint(path); }), {path.string(), "lacks 'config'"});
}

TEST(Parameters, TensorsThatDoNotFitAreNamed) {
  Parameters parameters({{"w", {2, 3}, Initializer::Constant(1), {}}}, 1);
  const std::vector<float> six(6);
  ExpectParts(ErrorOf([&] { parameters.Load({}, "f"); }), {"f", "'w'", "missing", "[2, 3]"});
  ExpectParts(ErrorOf([&] {
                parameters.Load({{MakeTensor("w", {3, 2}, six)}, {}}, "f");
              }),
              {"f", "'w'", "[3, 2]", "[2, 3]"});
  NamedTensor integers = MakeTensor("w", {2, 3}, six);
  integers.dtype = DType::kInt32;
  ExpectParts(ErrorOf([&] { parameters.Load({{integers}, {}}, "f"); }), {"int32", "float32"});
  EXPECT_EQ(parameters.values(0)[0], 1);  // untouched
}

TEST(RunDirectory, RefusesToReplaceARunUnlessTold) {
  const TemporaryFolder folder;
  const RunDirectory directory(folder.path() / "run");
  EXPECT_NO_THROW(directory.Check(ExistingRun::kRefuse));
  directory.Create();
  EXPECT_NO_THROW(directory.Check(ExistingRun::kRefuse));
  SaveCheckpoint(directory.last(), {ToyConfig(), {"a"}, {}}, {});
  ExpectParts(ErrorOf([&] { directory.Check(ExistingRun::kRefuse); }),
              {directory.path().string(), "--force"});
  EXPECT_NO_THROW(directory.Check(ExistingRun::kReplace));
  directory.Create();
  ExpectParts(ErrorOf([&] { directory.ToLoad(); }), {directory.path().string(), "neither"});
  ExpectParts(ErrorOf([&] { RunDirectory(folder.path() / "absent").ToLoad(); }), {"absent"});
}

}  // namespace
}  // namespace turbolstm
