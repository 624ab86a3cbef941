#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/cases.h"
#include "harness/measure.h"

namespace turbolstm::bench {

// The command line that every recurrent benchmark program understands (benchmarks/README.md).
struct Options {
  std::vector<Case> cases;
  std::vector<std::string> precisions;  // of what the program offers
  std::vector<std::string> passes;      // of "forward", "train"
  std::string device;                   // of what the program offers
  std::filesystem::path json;           // empty: standard output
  int threads = 2;
  double min_seconds = 1;
  bool peak = false;              // only measure the rate of large matrix products
  bool recompute = false;         // training keeps less for the backward pass, where offered
  int time_blocks = 0;            // into which a GPU cuts time; 0: as the schedule has it
  bool serve = false;             // measure what standard input asks for
  std::string schedule = "auto";  // of the plans, where offered
};

// What a program can run: all of its precisions by default, and the first of its devices.
struct Offer {
  std::vector<std::string> precisions = {"fp32", "bf16"};
  std::vector<std::string> devices = {"cpu"};
  bool models = false;  // also the training steps of whole models
  bool recompute = false;
  std::vector<std::string> schedules = {};  // of the plans, where there is a choice
};

// Parses the arguments; prints help or the error and exits where the program has nothing to run.
Options ParseOptions(int argc, char** argv, const std::string& description,
                     const Offer& offer = {});

// One measurement: what was run.
struct Run {
  const Case* what = nullptr;
  std::string precision;     // "fp32", "tf32", "bf16", "fp16", "bf16x6"
  std::string pass;          // "forward", "train"; "step" of a model
  std::string variant = "";  // how lengths were treated, "" if all are full
};

// Collects results and writes the JSON of benchmarks/README.md.
class Report {
 public:
  Report(std::string implementation, std::string version, int threads);

  // More about the program or its machine, for example ("device", "NVIDIA H200").
  void Describe(const std::string& key, const nlohmann::ordered_json& value);
  // `peak_memory_mib`: of a training step in this process, 0 if it was not measured.
  // `more`: further fields of the result.
  void Add(const Run& run, const Timing& timing, double peak_memory_mib = 0,
           const nlohmann::ordered_json& more = nlohmann::ordered_json::object());
  // A case that the implementation does not offer, with its words for it.
  void AddError(const Run& run, const std::string& error);
  // The rate of a large matrix product, 10^9 operations a second.
  void AddPeak(const std::string& precision, const std::string& what, double gflops);
  void Write(const std::filesystem::path& path) const;
  // Writes everything to standard output as one line and forgets the results.
  void Flush();

 private:
  nlohmann::ordered_json document_;
};

// Calls `measure` for every case, precision and pass of the options and writes the report.
// With --serve the report goes out as a line at once, then again with its results behind every line
// "case precision" of standard input, until that ends. There, what `measure` throws becomes the
// result's error.
void MeasureEach(const Options& options, Report* report,
                 const std::function<void(const Run&)>& measure);

}  // namespace turbolstm::bench
