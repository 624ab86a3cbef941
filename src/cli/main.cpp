#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <new>

#include "cli/commands.h"
#include "kernels/cell_kernels.h"
#include "ops/cpu_target.h"
#include "turbolstm/version.h"

namespace turbolstm::cli {
namespace {

// One line, whatever the message holds.
void Complain(std::string message) {
  std::replace(message.begin(), message.end(), '\n', ' ');
  std::fprintf(stderr, "turbolstm: %s\n", message.c_str());
}

int Usage(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
  const CLI::App* command = &app;
  for (const CLI::App* used : app.get_subcommands()) command = used;
  if (command == &app && !app.remaining().empty()) {
    Complain("there is no command '" + app.remaining().front() +
             "'; 'turbolstm --help' lists them");
    return kBadUsage;
  }
  const std::string name = command == &app ? "" : " " + command->get_name();
  Complain(std::string(error.what()) + "; 'turbolstm" + name + " --help' tells the usage");
  return kBadUsage;
}

int Run(int argc, char** argv) {
  CLI::App app{
      "Trains recurrent networks that are described as graphs, and shows how they run.\n"
      "'turbolstm COMMAND --help' tells a command's options with examples."};
  app.name("turbolstm");
  app.set_version_flag("--version", Version());
  app.require_subcommand(1);
  app.footer(
      "Exit codes: 0 done, 1 failed (one line on the error output says why), 2 wrong usage,\n"
      "130 interrupted by Ctrl-C (in general 128 plus the number of the signal).\n"
      "Environment: TURBOLSTM_CPU=portable|avx2|avx512 limits the instructions that are used.\n\n"
      "Example:\n"
      "  scripts/fetch_sentiment.sh\n"
      "  turbolstm train examples/sentiment/sentiment.toml\n"
      "  turbolstm predict runs/sentiment \"a film that stays with you\"");
  AddTrain(app);
  AddEval(app);
  AddPredict(app);
  AddExport(app);
  AddPlan(app);
  AddBench(app);
  AddCells(app);
  AddOps(app);
  AddDoctor(app);
  try {
    ApplyCpuTargetFromEnvironment();
    RegisterCellKernels();
    RegisterDeviceCellKernels();
    app.parse(argc, argv);
    return kDone;
  } catch (const CLI::ParseError& error) {
    return Usage(app, error);
  } catch (const Interrupted& end) {
    Complain(end.message);
    return kInterruptedBase + end.signal;
  } catch (const std::bad_alloc&) {
    Complain("out of memory: a smaller model, batch or data.max_length takes less");
  } catch (const std::exception& error) {
    Complain(error.what());
  }
  return kFailed;
}

}  // namespace
}  // namespace turbolstm::cli

int main(int argc, char** argv) {
  return turbolstm::cli::Run(argc, argv);
}
