#include "cli/interrupt.h"

#include <csignal>
#include <initializer_list>

namespace turbolstm::cli {
namespace {

volatile std::sig_atomic_t noted_signal = 0;

extern "C" void NoteSignal(int signal) {
  noted_signal = signal;
}

void Handle(void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;
  for (const int signal : {SIGINT, SIGTERM}) sigaction(signal, &action, nullptr);
}

}  // namespace

InterruptGuard::InterruptGuard() {
  noted_signal = 0;
  Handle(NoteSignal);
}

InterruptGuard::~InterruptGuard() {
  Handle(SIG_DFL);
}

int InterruptGuard::Signal() {
  return noted_signal;
}

}  // namespace turbolstm::cli
