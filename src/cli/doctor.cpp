#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>

#include "cli/commands.h"
#include "cli/table.h"
#include "data/text_data.h"
#include "ops/cpu_target.h"
#include "turbolstm/device.h"
#include "turbolstm/version.h"

namespace turbolstm::cli {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

std::string Targets() {
  std::vector<std::string_view> names;
  for (const CpuTarget target : AvailableCpuTargets()) names.push_back(Name(target));
  return fmt::format("{} in use, of {} (TURBOLSTM_CPU limits it)", Name(CurrentCpuTarget()),
                     fmt::join(names, ", "));
}

std::string Snippets() {
  if (std::filesystem::exists(kSnippetsPath)) return kSnippetsPath;
  return fmt::format("{} is absent here: run scripts/fetch_sentiment.sh in the project's folder",
                     kSnippetsPath);
}

void Examine() {
  Table table({Table::Align::kLeft, Table::Align::kLeft});
  table.Add({"version", Version()});
  table.Add({"compiler", fmt::format("{}, {} build", __VERSION__, TL_BUILD_TYPE)});
  table.Add({"instructions", Targets()});
  for (const BackendInfo& backend : ListBackends()) {
    const std::string kind = Name(backend.kind);
    if (backend.devices.empty()) table.Add({kind, "none: " + backend.absence});
    for (const DeviceInfo& device : backend.devices) {
      table.Add({fmt::format("{} {}", kind, device.index),
                 fmt::format("{}, {:.1f} GiB, {}", device.name,
                             static_cast<double>(device.memory_bytes) / kGiB, device.description)});
    }
  }
  for (const LibraryInfo& library : ListLibraries()) {
    table.Add({fmt::format("{} {}", Name(library.kind), library.name), library.found});
  }
  table.Add({"example data", Snippets()});
  fmt::print("{}", table.Text());
}

}  // namespace

void AddDoctor(CLI::App& app) {
  CLI::App* const command =
      app.add_subcommand("doctor", "Shows devices, instructions and versions, and what is missing");
  command->footer(
      "Example:\n"
      "  turbolstm doctor");
  command->callback([] { Examine(); });
}

}  // namespace turbolstm::cli
