#pragma once

#include <filesystem>
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
  std::vector<std::string> precisions;  // of "fp32", "bf16"
  std::vector<std::string> passes;      // of "forward", "train"
  std::filesystem::path json;           // empty: standard output
  int threads = 2;
  double min_seconds = 1;
  bool peak = false;  // only measure the rate of large matrix products
};

// Parses the arguments; prints help or the error and exits where the program has nothing to run.
Options ParseOptions(int argc, char** argv, const std::string& description);

// One measurement: what was run.
struct Run {
  const Case* what = nullptr;
  std::string precision;     // "fp32", "bf16"
  std::string pass;          // "forward", "train"
  std::string variant = "";  // how lengths were treated, "" if all are full
};

// Collects results and writes the JSON of benchmarks/README.md.
class Report {
 public:
  Report(std::string implementation, std::string version, int threads);

  // `peak_memory_mib`: of a training step in this process, 0 if it was not measured.
  void Add(const Run& run, const Timing& timing, double peak_memory_mib = 0);
  // A case that the implementation does not offer, with its words for it.
  void AddError(const Run& run, const std::string& error);
  // The rate of a large matrix product, 10^9 operations a second.
  void AddPeak(const std::string& precision, const std::string& what, double gflops);
  void Write(const std::filesystem::path& path) const;

 private:
  nlohmann::ordered_json document_;
};

}  // namespace turbolstm::bench
