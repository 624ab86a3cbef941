#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/read_file.h"
#include "io/safetensors.h"
#include "program.h"
#include "train/config.h"
#include "train/toy_task.h"

namespace turbolstm {
namespace {

namespace fs = std::filesystem;

// A folder with a small data set and a config for it.
class Cli : public testing::Test {
 protected:
  Cli() {
    std::ofstream data(folder_.path() / "toy.tsv");
    for (int i = 0; i < 200; ++i) {
      const bool good = i % 2 == 0;
      data << i << '\t' << (good ? "2.5" : "-1.5") << '\t' << "the film " << i % 7 << " is "
           << (good ? "good" : "bad") << (i % 3 == 0 ? " indeed\n" : "\n");
    }
    std::ofstream(folder_.path() / "toy.toml")
        << "[data]\nkind = \"tsv\"\npath = \"toy.tsv\"\n[model]\nembedding = 8\nhidden = 8\n"
           "dropout = 0.1\n[train]\nepochs = 3\nbatch = 8\nlearning_rate = 0.02\n"
           "[output]\ndirectory = \"run\"\n";
  }

  fs::path path(const std::string& name) const { return folder_.path() / name; }

  Outcome Run(std::vector<std::string> arguments, std::string input = "") const {
    return RunProgram({std::move(arguments), folder_.path(), std::move(input), {}});
  }
  void Train(std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"train", "toy.toml"});
    const Outcome outcome = Run(std::move(more));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
  }

  // Expects an error of one line that holds all parts.
  static void ExpectError(const Outcome& outcome, int code, const std::vector<std::string>& parts) {
    EXPECT_EQ(outcome.code, code) << outcome.out << outcome.err;
    EXPECT_TRUE(outcome.err.starts_with("turbolstm: ")) << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    for (const std::string& part : parts) {
      EXPECT_NE(outcome.err.find(part), std::string::npos) << part << " in: " << outcome.err;
    }
  }

  TemporaryFolder folder_;
};

TEST_F(Cli, HelpOfEveryCommandHasAnExample) {
  const Outcome main = Run({"--help"});
  EXPECT_EQ(main.code, 0);
  for (const char* command :
       {"train", "eval", "predict", "export", "plan", "bench", "cells", "ops", "doctor"}) {
    EXPECT_NE(main.out.find(command), std::string::npos) << command;
    const Outcome help = Run({command, "--help"});
    EXPECT_EQ(help.code, 0) << help.err;
    EXPECT_NE(help.out.find(std::string("turbolstm ") + command), std::string::npos) << help.out;
    EXPECT_NE(help.out.find("Example"), std::string::npos) << command;
  }
  const std::string train = Run({"train", "--help"}).out;
  for (const ConfigKeyHelp& key : ConfigKeys()) {
    EXPECT_NE(train.find(key.name + " = " + key.default_value), std::string::npos) << key.name;
  }
}

TEST_F(Cli, WrongUsageSaysSo) {
  ExpectError(Run({}), 2, {"--help"});
  ExpectError(Run({"trian"}), 2, {"trian"});
  ExpectError(Run({"train"}), 2, {"config", "turbolstm train --help"});
  ExpectError(Run({"plan", "--cell", "lstm", "--steps", "-1"}), 2, {"--steps"});
  ExpectError(Run({"eval", "run", "--part", "half"}), 2, {"--part"});
}

TEST_F(Cli, TrainsEvaluatesAndPredicts) {
  const Outcome trained = Run({"train", "toy.toml"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_EQ(trained.err, "");  // no bar where no terminal is
  EXPECT_NE(trained.out.find("\n    3  "), std::string::npos) << trained.out;
  for (const char* file : {"run/best.safetensors", "run/checkpoint.safetensors",
                           "run/vocabulary.txt", "run/config.toml", "run/log.csv"}) {
    EXPECT_TRUE(fs::exists(path(file))) << file;
  }
  const Outcome evaluated = Run({"eval", "run"});
  EXPECT_EQ(evaluated.code, 0) << evaluated.err;
  EXPECT_NE(evaluated.out.find("accuracy  1.0000"), std::string::npos) << evaluated.out;
  EXPECT_NE(evaluated.out.find("20 texts"), std::string::npos) << evaluated.out;
  EXPECT_NE(Run({"eval", "run", "--part", "train"}).out.find("180 texts"), std::string::npos);

  const Outcome predicted = Run({"predict", "run", "the film is good", "a bad film"});
  EXPECT_EQ(predicted.code, 0) << predicted.err;
  EXPECT_TRUE(predicted.out.starts_with("positive\t0.")) << predicted.out;
  EXPECT_NE(predicted.out.find("\nnegative\t0."), std::string::npos) << predicted.out;
  EXPECT_EQ(Run({"predict", "run"}, "the film is good\r\na bad film").out, predicted.out);

  const Outcome exported = Run({"export", "run", "--onnx", "model.onnx"});
  EXPECT_EQ(exported.out, "model.onnx\n") << exported.err;
  EXPECT_GT(fs::file_size(path("model.onnx")), 0);
  ExpectError(Run({"export", "run"}), 2, {"--onnx"});
  ExpectError(Run({"export", "absent", "--onnx", "model.onnx"}), 1, {"absent"});
}

TEST_F(Cli, RunsSufficeWhereverTheyAreMoved) {
  Train();
  const Outcome before = Run({"predict", "run", "good"});
  fs::create_directory(path("elsewhere"));
  fs::rename(path("run"), path("elsewhere/moved"));
  const Outcome after = Run({"predict", "elsewhere/moved", "good"});
  EXPECT_EQ(after.code, 0) << after.err;
  EXPECT_EQ(after.out, before.out);
}

TEST_F(Cli, SameSeedGivesTheSameBytes) {
  Train();
  Train({"output.directory=again"});
  Train({"output.directory=other", "train.seed=2"});
  const std::string bytes = ReadFile(path("run/checkpoint.safetensors"));
  EXPECT_EQ(bytes, ReadFile(path("again/checkpoint.safetensors")));
  EXPECT_NE(bytes, ReadFile(path("other/checkpoint.safetensors")));
}

TEST_F(Cli, ExistingRunsAreReplacedOnlyByForce) {
  Train({"train.epochs=1"});
  const std::string bytes = ReadFile(path("run/checkpoint.safetensors"));
  ExpectError(Run({"train", "toy.toml"}), 1, {"run", "--force"});
  EXPECT_EQ(bytes, ReadFile(path("run/checkpoint.safetensors")));
  Train({"--force"});
  EXPECT_NE(bytes, ReadFile(path("run/checkpoint.safetensors")));
}

TEST_F(Cli, OutputThatCannotBeAFolderIsNamed) {
  ExpectError(Run({"train", "toy.toml", "output.directory=toy.tsv"}), 1, {"toy.tsv", "no folder"});
  ExpectError(Run({"train", "toy.toml", "output.directory=toy.tsv/run"}), 1, {"toy.tsv/run"});
  ExpectError(Run({"train", "toy.toml", "output.directory="}), 1, {"output.directory", "empty"});
  ExpectError(Run({"train", "toy.toml", "output.directory=/proc/run"}), 1, {"/proc/run"});
}

TEST_F(Cli, ConfigFaultsNameThePlace) {
  ExpectError(Run({"train", "absent.toml"}), 1, {"absent.toml", "No such file"});
  ExpectError(Run({"train", "toy.toml", "train.epoch=1"}), 1, {"train.epoch", "train.epochs"});
  ExpectError(Run({"train", "toy.toml", "train.batch=many"}), 1, {"many", "an integer"});
  ExpectError(Run({"train", "toy.toml", "model.cell=lsmt"}), 1, {"'lsmt'", "gru"});
  ExpectError(Run({"train", "toy.toml", "model.projection=4"}), 1, {"model.projection", "lstm"});
  std::ofstream(path("bad.toml")) << "[train]\nbatch = 1\nbatch = 2\n";
  ExpectError(Run({"train", "bad.toml"}), 1, {"bad.toml:3:", "not valid TOML"});
  EXPECT_FALSE(fs::exists(path("run")));
}

TEST_F(Cli, AbsentDataSaysHowToGetIt) {
  ExpectError(Run({"train", std::string(TL_EXAMPLES) + "/sentiment/sentiment.toml"}), 1,
              {"scripts/fetch_sentiment.sh"});
  ExpectError(Run({"train", std::string(TL_EXAMPLES) + "/sentiment/imdb.toml"}), 1,
              {"aclImdb", "https://"});
  ExpectError(Run({"train", "toy.toml", "data.path=absent.tsv"}), 1, {"absent.tsv"});
  EXPECT_FALSE(fs::exists(path("runs")));
}

TEST_F(Cli, DataFaultsNameTheLine) {
  std::ofstream(path("bad.tsv")) << "1\t2.0\tfine\n2\tgreat\tno rating\n";
  ExpectError(Run({"train", "toy.toml", "data.path=bad.tsv"}), 1, {"bad.tsv", "2"});
  std::ofstream(path("latin.tsv")) << "1\t2.0\tcaf\xe9\n";
  ExpectError(Run({"train", "toy.toml", "data.path=latin.tsv"}), 1, {"latin.tsv", "UTF-8"});
}

TEST_F(Cli, SentencesThatCannotBeReadAreNamed) {
  Train({"train.epochs=0"});
  ExpectError(Run({"predict", "run", "good", ""}), 1, {"sentence 2", "no words"});
  ExpectError(Run({"predict", "run", "caf\xe9"}), 1, {"sentence 1", "UTF-8", "byte 4"});
  ExpectError(Run({"predict", "run"}, "good\n\nbad\n"), 1, {"line 2", "no words"});
  EXPECT_EQ(Run({"predict", "run"}).code, 0);  // nothing asked, nothing said
}

TEST_F(Cli, BrokenRunsAreNamed) {
  ExpectError(Run({"eval", "absent"}), 1, {"absent"});
  ExpectError(Run({"predict", ".", "good"}), 1, {"best.safetensors"});
  Train({"train.epochs=1"});
  const fs::path best = path("run/best.safetensors");
  const std::string bytes = ReadFile(best);
  fs::resize_file(best, bytes.size() - 4);
  ExpectError(Run({"predict", "run", "good"}), 1, {"run/best.safetensors"});
  fs::resize_file(best, 3);
  ExpectError(Run({"eval", "run"}), 1, {"run/best.safetensors"});
  const std::string nan("\0\0\xc0\x7f", 4);
  std::ofstream(best, std::ios::binary) << bytes.substr(0, bytes.size() - nan.size()) << nan;
  ExpectError(Run({"predict", "run", "good"}), 1, {"run/best.safetensors", "sentence 1", "finite"});
  std::ofstream(best, std::ios::binary) << bytes;
  ExpectError(Run({"eval", "run", "model.hidden=4"}), 1, {"'model.hidden=4'", "section data"});

  SafetensorsFile file = ReadSafetensors(best);
  for (NamedTensor& tensor : file.tensors) {
    if (tensor.name == "lstm.weight_hh_l0") std::swap(tensor.shape[0], tensor.shape[1]);
  }
  WriteSafetensors(best, file);
  ExpectError(Run({"predict", "run", "good"}), 1,
              {"run/best.safetensors", "lstm.weight_hh_l0", "[8, 32]", "[32, 8]"});
  std::ofstream(best, std::ios::binary) << bytes;
  std::ofstream(path("run/vocabulary.txt"), std::ios::app) << "another\n";
  ExpectError(Run({"predict", "run", "good"}), 1, {"embedding.weight"});
  fs::remove(path("run/vocabulary.txt"));
  ExpectError(Run({"predict", "run", "good"}), 1, {"run/vocabulary.txt"});
}

TEST_F(Cli, InterruptEndsWithACheckpoint) {
  const Outcome outcome =
      RunProgram({{"train", "toy.toml", "train.epochs=100000"}, folder_.path(), "", "\n    2  "});
  ExpectError(outcome, 130, {"interrupted", "run/checkpoint.safetensors"});
  EXPECT_EQ(Run({"eval", "run"}).code, 0);
}

TEST_F(Cli, PlanPrintsChecksAndTraces) {
  const std::vector<std::string> plan = {"plan", "--cell",   "gru", "--steps",   "9", "--batch",
                                         "4",    "--hidden", "16",  "--streams", "2"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), plan.begin(), plan.end());
    return Run(more);
  };
  const Outcome summary = with({"--run"});
  EXPECT_EQ(summary.code, 0) << summary.err;
  for (const char* part : {"T 9, B 4", "GemmLoop", "measured", "critical path"}) {
    EXPECT_NE(summary.out.find(part), std::string::npos) << summary.out;
  }
  EXPECT_NE(with({"--memory"}).out.find("packed weights  "), std::string::npos);
  const Outcome recomputing = with({"--recompute", "--run"});
  EXPECT_EQ(recomputing.code, 0) << recomputing.err;
  EXPECT_NE(recomputing.out.find("with --recompute  "), std::string::npos) << recomputing.out;
  EXPECT_EQ(with({"--inference"}).out.find("--recompute"), std::string::npos);
  EXPECT_TRUE(with({"--dot"}).out.starts_with("digraph"));
  EXPECT_TRUE(with({"--network"}).out.starts_with("digraph"));
  EXPECT_EQ(with({"--run", "--trace", "trace.json"}).code, 0);
  const auto trace = nlohmann::json::parse(ReadFile(path("trace.json")), nullptr, false);
  EXPECT_FALSE(trace.is_discarded());

  const std::string schedule = with({"--print"}).out;
  std::ofstream(path("good.schedule")) << schedule;
  EXPECT_EQ(with({"--check", "good.schedule"}).code, 0);
  std::ofstream(path("bad.schedule")) << "stream 0\n  first\n";
  ExpectError(with({"--check", "bad.schedule"}), 1, {"bad.schedule", "line 2", "first"});

  EXPECT_EQ(Run({"plan", "toy.toml", "model.cell=mgu", "--inference"}).code, 0);
  ExpectError(Run({"plan"}), 1, {"--cell"});
  ExpectError(Run({"plan", "--cell", "lsmt"}), 1, {"'lsmt'"});
}

TEST_F(Cli, PlansCanBeExportedEditedAndRunAsGiven) {
  const std::vector<std::string> words = {
      "plan",    "--cell", "lstm",      "--hidden", "8",          "--steps",  "12",
      "--batch", "3",      "--streams", "2",        "--schedule", "wavefront"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), words.begin(), words.end());
    return Run(more);
  };
  const std::string text = with({"--print"}).out;
  std::ofstream(path("given.plan")) << text;
  const std::vector<std::string> from = {"plan",      "--cell", "lstm",   "--hidden",   "8",
                                         "--streams", "2",      "--from", "given.plan", "--print"};
  EXPECT_EQ(Run(from).out, text);

  // The cuts without the tasks: those are scheduled anew.
  std::string cuts = text.substr(0, text.find('#'));
  cuts.replace(cuts.find("time_block 1"), 12, "time_block 4");
  std::ofstream(path("given.plan")) << cuts;
  EXPECT_NE(Run(from).out.find("time_block 4"), std::string::npos);

  // Two dependent tasks of a stream change places: the names of both are told.
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  const auto loop = [&](std::string_view steps_before) {
    size_t seen = 0;
    for (size_t i = 0; i < lines.size(); ++i) {
      if (lines[i].find("loop lstm.a_l0 ") != std::string::npos && seen++ == steps_before.size()) {
        return i;
      }
    }
    return lines.size();
  };
  std::swap(lines.at(loop("")), lines.at(loop("1")));
  std::ofstream edited(path("given.plan"));
  for (const std::string& line : lines) edited << line << '\n';
  edited.close();
  ExpectError(Run(from), 1, {"loop lstm.a_l0", "[schedule]"});
  std::ofstream(path("given.plan")) << "steps 12\nsteps 13\n";
  ExpectError(Run(from), 1, {"given.plan", "line 2", "again"});
}

TEST_F(Cli, PlanComparesAndDrawsSchedules) {
  const Outcome compared =
      Run({"plan", "--cell", "lstm", "--hidden", "8", "--beside", "gru:16", "--steps", "9",
           "--batch", "2", "--compare", "--run", "--seconds", "0.01"});
  EXPECT_EQ(compared.code, 0) << compared.err;
  for (const char* name :
       {"sequential", "whole-window", "wavefront", "cell-wavefront", "turbolstm", "auto"}) {
    EXPECT_NE(compared.out.find(name), std::string::npos) << name;
  }
  EXPECT_EQ(Run({"plan", "toy.toml", "--run", "--svg", "a.svg"}).code, 0);
  EXPECT_TRUE(ReadFile(path("a.svg")).starts_with("<svg"));
  EXPECT_EQ(Run({"train", "toy.toml", "train.epochs=1", "--profile", "profile"}).code, 0);
  for (const char* name : {"timeline.svg", "trace.json", "plan.txt"}) {
    EXPECT_TRUE(fs::exists(path("profile") / name)) << name;
  }
  ExpectError(Run({"plan", "--cell", "lstm", "--inference", "--recompute"}), 1,
              {"--recompute", "--inference"});
  ExpectError(Run({"plan", "--cell", "lstm", "--schedule", "fastest"}), 1,
              {"'fastest'", "whole-window"});
}

TEST_F(Cli, PlanHeedsTheConfig) {
  const auto memory = [](const Outcome& outcome) {
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    const size_t begin = outcome.out.find("memory ");
    return outcome.out.substr(begin, outcome.out.find('\n', begin) - begin);
  };
  const auto plan = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"plan", "toy.toml", "--steps", "400"};
    words.insert(words.end(), more.begin(), more.end());
    return Run(words);
  };
  const std::string recomputing = memory(plan({"train.recompute=true"}));
  EXPECT_EQ(recomputing, memory(plan({"--recompute"})));
  EXPECT_NE(recomputing, memory(plan({})));
  // What a config says is not said twice.
  ExpectError(plan({"--precision", "bf16"}), 2, {"--precision", "--cell"});
  ExpectError(plan({"--hidden", "7"}), 2, {"--hidden", "--cell"});
  ExpectError(plan({"--bidirectional"}), 2, {"--bidirectional", "--cell"});
  ExpectError(plan({"model.precision=bf16x6"}), 1, {"bf16x6", "GPU", "fp32 and bf16"});
}

TEST_F(Cli, BenchTimesLayersInEveryPrecisionAskedFor) {
  const Outcome timed = Run({"bench", "--cell", "gru", "--hidden", "16", "--steps", "5", "--batch",
                             "3", "--precision", "fp32,bf16", "--seconds", "0", "--device", "cpu"});
  ASSERT_EQ(timed.code, 0) << timed.err;
  for (const char* row : {"fp32       forward", "bf16       forward", "fp32       training step",
                          "bf16       training step"}) {
    EXPECT_NE(timed.out.find(row), std::string::npos) << row << " in: " << timed.out;
  }
  const Outcome forward = Run({"bench", "--hidden", "16", "--steps", "5", "--batch", "3",
                               "--inference", "--seconds", "0", "--device", "cpu"});
  EXPECT_EQ(forward.out.find("training step"), std::string::npos) << forward.out;
  ExpectError(Run({"bench", "--cell", "lsmt"}), 1, {"lsmt", "lstm"});
  ExpectError(Run({"bench", "--device", "cpu", "--precision", "fp16"}), 1, {"fp16", "bf16"});
  ExpectError(Run({"bench", "--hidden", "0"}), 2, {"--hidden"});
}

TEST_F(Cli, DevicesAndPrecisionsThatAreNotThereAreNamed) {
  ExpectError(Run({"train", "toy.toml", "--device", "gpu"}), 1, {"'gpu'", "auto, cpu, cuda"});
  ExpectError(Run({"train", "toy.toml", "--device", "cuda:4000"}), 1, {"'cuda:4000'", "GPU"});
  ExpectError(Run({"train", "toy.toml", "--device", "cpu", "model.precision=fp16"}), 1,
              {"model.precision", "'fp16'", "GPU"});
  EXPECT_FALSE(fs::exists(path("run")));
}

TEST_F(Cli, RunsAreMeasuredOnADeviceOfChoice) {
  Train({"--device", "cpu"});
  EXPECT_NE(Run({"eval", "run", "--device", "cpu"}).out.find("cpu, fp32"), std::string::npos);
  ExpectError(Run({"eval", "run", "--device", "cuda:4000"}), 1, {"'cuda:4000'"});
  ExpectError(Run({"predict", "run", "--device", "gpu", "good"}), 1, {"'gpu'"});
}

TEST_F(Cli, ListsCellsOperatorsAndDevices) {
  const std::string cells = Run({"cells"}).out;
  EXPECT_NE(cells.find("slstm"), std::string::npos);
  EXPECT_NE(cells.find("Scan, GemmLoop x2"), std::string::npos) << cells;
  EXPECT_NE(Run({"cells", "gru"}).out.find("h = (1 - z) * n + z * h[t-1]"), std::string::npos);
  ExpectError(Run({"cells", "nonesuch"}), 1, {"'nonesuch'"});
  const std::string operators = Run({"ops"}).out;
  EXPECT_NE(operators.find("matmul"), std::string::npos);
  EXPECT_NE(operators.find("cross_entropy"), std::string::npos);
  EXPECT_NE(operators.find("ordered scatter"), std::string::npos);  // of the column for CUDA
  const Outcome doctor = Run({"doctor"});
  EXPECT_EQ(doctor.code, 0);
  EXPECT_NE(doctor.out.find("fetch_sentiment.sh"), std::string::npos) << doctor.out;
}

}  // namespace
}  // namespace turbolstm
