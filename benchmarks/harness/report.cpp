#include "harness/report.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <iostream>
#include <iterator>

#include "base/error.h"

namespace turbolstm::bench {
namespace {

nlohmann::ordered_json EntryOf(const Run& run) {
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

std::vector<std::string> PassesOf(const Case& c, const Options& options) {
  return c.model.empty() ? options.passes : std::vector<std::string>{"step"};
}

void MeasureList(const Options& options, const std::function<void(const Run&)>& measure) {
  for (const Case& c : options.cases) {
    for (const std::string& precision : options.precisions) {
      for (const std::string& pass : PassesOf(c, options)) measure({&c, precision, pass});
    }
  }
}

void Serve(const Options& options, Report* report, const std::function<void(const Run&)>& measure) {
  report->Flush();
  std::string name, precision;
  while (std::cin >> name >> precision) {
    const Case what = Select(options.cases, {name}).front();
    for (const std::string& pass : PassesOf(what, options)) {
      const Run run{&what, precision, pass};
      try {
        measure(run);
      } catch (const std::exception& error) {
        report->AddError(run, error.what());
      }
    }
    report->Flush();
  }
}

}  // namespace

Options ParseOptions(int argc, char** argv, const std::string& description, const Offer& offer) {
  Options options;
  CLI::App app(description);
  std::string shapes;
  std::vector<std::string> names;
  const CLI::IsMember precisions(offer.precisions);
  const CLI::IsMember devices(offer.devices);
  options.device = offer.devices.front();
  const CLI::IsMember passes({"forward", "train"});
  app.add_option("--shapes", shapes, "list of shapes (shapes.json)")->required();
  app.add_option("--case", names, "run only the case of this name (may be repeated)");
  app.add_option("--precision", options.precisions,
                 fmt::format("{} (default all)", fmt::join(offer.precisions, ", ")))
      ->check(precisions);
  app.add_option("--pass", options.passes, "forward, train (default both)")->check(passes);
  app.add_option("--device", options.device,
                 fmt::format("{} (default the first)", fmt::join(offer.devices, ", ")))
      ->check(devices);
  app.add_option("--json", options.json, "write results here (default: standard output)");
  app.add_option("--threads", options.threads, "threads (default 2)")->check(CLI::Range(1, 1024));
  app.add_option("--min-time", options.min_seconds, "least seconds per measurement (default 1)");
  app.add_flag("--peak", options.peak, "only measure large matrix products");
  if (offer.recompute) {
    app.add_flag("--recompute", options.recompute, "training computes activations again");
  }
  if (!offer.schedules.empty()) {
    app.add_option("--schedule", options.schedule, "how the work is cut and ordered")
        ->check(CLI::IsMember(offer.schedules))
        ->capture_default_str();
    app.add_option("--time-blocks", options.time_blocks, "into which a GPU cuts time; 0: chosen")
        ->check(CLI::Range(0, 1024));
  }
  app.add_flag("--serve", options.serve, "answer lines \"case precision\" of standard input");
  try {
    app.parse(argc, argv);
    std::vector<Case> all = ReadCases(shapes);
    if (offer.models) std::ranges::move(ReadModels(shapes), std::back_inserter(all));
    options.cases = Select(all, names);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));
  } catch (const Error& error) {
    std::cerr << error.what() << '\n';
    std::exit(2);
  }
  if (options.precisions.empty()) options.precisions = offer.precisions;
  if (options.passes.empty()) options.passes = {"forward", "train"};
  return options;
}

Report::Report(std::string implementation, std::string version, int threads)
    : document_{{"implementation", std::move(implementation)},
                {"version", std::move(version)},
                {"threads", threads},
                {"peaks", nlohmann::ordered_json::array()},
                {"results", nlohmann::ordered_json::array()}} {}

void Report::Describe(const std::string& key, const nlohmann::ordered_json& value) {
  document_[key] = value;
}

void Report::Add(const Run& run, const Timing& timing, double peak_memory_mib,
                 const nlohmann::ordered_json& more) {
  nlohmann::ordered_json entry = EntryOf(run);
  const double gflop = run.what->ForwardGflop() * (run.pass == "forward" ? 1 : 3);
  entry["runs"] = timing.runs;
  entry["median_ms"] = timing.median;
  entry["min_ms"] = timing.min;
  entry["q1_ms"] = timing.q1;
  entry["q3_ms"] = timing.q3;
  entry["gflop"] = gflop;
  if (peak_memory_mib > 0) entry["peak_memory_mib"] = peak_memory_mib;
  entry.update(more);
  document_["results"].push_back(std::move(entry));
}

void Report::AddError(const Run& run, const std::string& error) {
  nlohmann::ordered_json entry = EntryOf(run);
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

void Report::Flush() {
  std::cout << document_.dump() << std::endl;
  document_["results"] = nlohmann::ordered_json::array();
}

void MeasureEach(const Options& options, Report* report,
                 const std::function<void(const Run&)>& measure) {
  options.serve ? Serve(options, report, measure) : MeasureList(options, measure);
  if (!options.serve) report->Write(options.json);
}

}  // namespace turbolstm::bench
