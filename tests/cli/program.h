#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace turbolstm {

struct Outcome {
  int code = 0;  // 128 + signal where that ended it
  std::string out;
  std::string err;
};

struct Invocation {
  std::vector<std::string> arguments;
  std::filesystem::path folder;  // to run in; empty: here
  std::string input;             // on the standard input
  // Sends SIGINT when this text has come on the standard output; empty: never.
  std::string interrupt_after;
};

// Runs the program and waits for its end.
Outcome RunProgram(const Invocation& invocation);

}  // namespace turbolstm
