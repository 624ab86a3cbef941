#include "program.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <fstream>

#include "base/error.h"
#include "base/read_file.h"
#include "train/toy_task.h"

namespace turbolstm {
namespace {

void Redirect(const std::filesystem::path& path, int flags, int to) {
  const int from = open(path.c_str(), flags, 0600);
  if (from < 0 || dup2(from, to) < 0) _exit(127);
}

// Reads to the end; sends SIGINT once when the text has come.
std::string ReadAll(int fd, pid_t child, const std::string& interrupt_after) {
  std::string text;
  bool sent = interrupt_after.empty();
  std::array<char, 4096> block;
  for (ssize_t n = 0; (n = read(fd, block.data(), block.size())) > 0;) {
    text.append(block.data(), static_cast<size_t>(n));
    if (!sent && text.find(interrupt_after) != std::string::npos) {
      kill(child, SIGINT);
      sent = true;
    }
  }
  return text;
}

}  // namespace

Outcome RunProgram(const Invocation& invocation) {
  const TemporaryFolder files;
  const auto input = files.path() / "in";
  const auto errors = files.path() / "err";
  std::ofstream(input) << invocation.input;
  std::vector<std::string> words = invocation.arguments;
  words.insert(words.begin(), TL_PROGRAM);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::array<int, 2> ends;
  TL_CHECK(pipe(ends.data()) == 0, "[test] no pipe");
  const pid_t child = fork();
  if (child == 0) {
    if (!invocation.folder.empty() && chdir(invocation.folder.c_str()) != 0) _exit(127);
    Redirect(input, O_RDONLY, STDIN_FILENO);
    Redirect(errors, O_WRONLY | O_CREAT | O_TRUNC, STDERR_FILENO);
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    close(ends[1]);
    execv(argv[0], argv.data());
    _exit(127);
  }
  close(ends[1]);
  Outcome outcome;
  outcome.out = ReadAll(ends[0], child, invocation.interrupt_after);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  outcome.err = ReadFile(errors);
  return outcome;
}

}  // namespace turbolstm
