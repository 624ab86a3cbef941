#include "harness/report.h"

#include <CLI/CLI.hpp>
#include <fstream>
#include <iostream>

#include "base/error.h"

namespace turbolstm::bench {
namespace {

nlohmann::ordered_json Describe(const Run& run) {
  const Case& c = *run.what;
  return {{"case", c.name},
          {"cell", c.cell},
          {"T", c.T},
          {"B", c.B},
          {"I", c.I},
          {"H", c.H},
          {"L", c.L},
          {"bidirectional", c.bidirectional},
          {"lengths", c.uniform_lengths ? "uniform" : "full"},
          {"precision", run.precision},
          {"pass", run.pass},
          {"variant", run.variant}};
}

std::vector<Case> Select(const std::vector<Case>& all, const std::vector<std::string>& names) {
  if (names.empty()) return all;
  std::vector<Case> chosen;
  for (const std::string& name : names) {
    const auto found =
        std::find_if(all.begin(), all.end(), [&](const Case& c) { return c.name == name; });
    TL_CHECK(found != all.end(), "[--case] {} is not in the list of shapes", name);
    chosen.push_back(*found);
  }
  return chosen;
}

}  // namespace

Options ParseOptions(int argc, char** argv, const std::string& description) {
  Options options;
  CLI::App app(description);
  std::string shapes;
  std::vector<std::string> names;
  const CLI::IsMember precisions({"fp32", "bf16"});
  const CLI::IsMember passes({"forward", "train"});
  app.add_option("--shapes", shapes, "list of shapes (shapes.json)")->required();
  app.add_option("--case", names, "run only the case of this name (may be repeated)");
  app.add_option("--precision", options.precisions, "fp32, bf16 (default both)")->check(precisions);
  app.add_option("--pass", options.passes, "forward, train (default both)")->check(passes);
  app.add_option("--json", options.json, "write results here (default: standard output)");
  app.add_option("--threads", options.threads, "threads (default 2)")->check(CLI::Range(1, 1024));
  app.add_option("--min-time", options.min_seconds, "least seconds per measurement (default 1)");
  app.add_flag("--peak", options.peak, "only measure large matrix products");
  try {
    app.parse(argc, argv);
    options.cases = Select(ReadCases(shapes), names);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));
  } catch (const Error& error) {
    std::cerr << error.what() << '\n';
    std::exit(2);
  }
  if (options.precisions.empty()) options.precisions = {"fp32", "bf16"};
  if (options.passes.empty()) options.passes = {"forward", "train"};
  return options;
}

Report::Report(std::string implementation, std::string version, int threads)
    : document_{{"implementation", std::move(implementation)},
                {"version", std::move(version)},
                {"threads", threads},
                {"peaks", nlohmann::ordered_json::array()},
                {"results", nlohmann::ordered_json::array()}} {}

void Report::Add(const Run& run, const Timing& timing, double peak_memory_mib) {
  nlohmann::ordered_json entry = Describe(run);
  const double gflop = run.what->ForwardGflop() * (run.pass == "train" ? 3 : 1);
  entry["runs"] = timing.runs;
  entry["median_ms"] = timing.median;
  entry["min_ms"] = timing.min;
  entry["q1_ms"] = timing.q1;
  entry["q3_ms"] = timing.q3;
  entry["gflop"] = gflop;
  if (peak_memory_mib > 0) entry["peak_memory_mib"] = peak_memory_mib;
  document_["results"].push_back(std::move(entry));
}

void Report::AddError(const Run& run, const std::string& error) {
  nlohmann::ordered_json entry = Describe(run);
  entry["error"] = error;
  document_["results"].push_back(std::move(entry));
}

void Report::AddPeak(const std::string& precision, const std::string& what, double gflops) {
  document_["peaks"].push_back({{"precision", precision}, {"what", what}, {"gflops", gflops}});
}

void Report::Write(const std::filesystem::path& path) const {
  const std::string text = document_.dump(1) + "\n";
  if (path.empty()) {
    std::cout << text;
    return;
  }
  std::ofstream file(path);
  file << text << std::flush;
  TL_CHECK(file.good(), "[{}] cannot be written", path.string());
}

}  // namespace turbolstm::bench
