#include "cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace turbolstm::cli {
namespace {

constexpr int64_t kBarWidth = 30;
constexpr std::chrono::milliseconds kRefresh{100};

}  // namespace

Progress::Progress() : terminal_(isatty(STDERR_FILENO) != 0) {}

void Progress::Show(const BatchReport& report) {
  if (!terminal_) return;
  const auto now = std::chrono::steady_clock::now();
  if (shown_ && now - last_ < kRefresh && report.batch < report.batches) return;
  last_ = now;
  shown_ = true;
  const auto filled = static_cast<size_t>(kBarWidth * report.batch / report.batches);
  fmt::print(stderr, "\r\033[Kepoch {} [{:<{}}] {}/{}  loss {:.4f}", report.epoch,
             std::string(filled, '#'), kBarWidth, report.batch, report.batches, report.loss);
  std::fflush(stderr);
}

void Progress::Clear() {
  if (!shown_) return;
  fmt::print(stderr, "\r\033[K");
  std::fflush(stderr);
  shown_ = false;
}

}  // namespace turbolstm::cli
