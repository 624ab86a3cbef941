#pragma once

#include <string>

namespace CLI {
class App;
}

namespace turbolstm::cli {

// What the program ends with. A command that fails throws; main turns that into kFailed.
enum ExitCode : int { kDone = 0, kFailed = 1, kBadUsage = 2, kInterruptedBase = 128 };

// Thrown by a command that a signal ended in good order.
struct Interrupted {
  int signal;
  std::string message;
};

// Each adds one command. Its callback does the work.
void AddTrain(CLI::App& app);
void AddEval(CLI::App& app);
void AddPredict(CLI::App& app);
void AddExport(CLI::App& app);
void AddPlan(CLI::App& app);
void AddBench(CLI::App& app);
void AddCells(CLI::App& app);
void AddOps(CLI::App& app);
void AddDoctor(CLI::App& app);

}  // namespace turbolstm::cli
