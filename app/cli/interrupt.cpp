#include "cli/interrupt.h"

#include <unistd.h>

#include <atomic>
#include <csignal>

#include "cli/failure.h"

namespace infer::cli {
namespace {

std::atomic<bool> in_scope{false};
std::atomic<bool> was_interrupted{false};
std::atomic<Session*> current_session{nullptr};
std::atomic<void (*)()> hook_outside{nullptr};
std::atomic<void (*)()> hook_ending{nullptr};
static_assert(std::atomic<bool>::is_always_lock_free);
static_assert(std::atomic<Session*>::is_always_lock_free);
static_assert(std::atomic<void (*)()>::is_always_lock_free);

[[noreturn]] void end(int code) {
  if (const auto ending = hook_ending.load()) ending();
  _exit(code);
}

extern "C" void on_interrupt(int) {
  if (!in_scope.load()) {
    const auto outside = hook_outside.load();
    if (outside == nullptr) end(kExitInterrupted);
    outside();
    return;
  }
  if (was_interrupted.exchange(true)) end(kExitInterrupted);
  if (Session* session = current_session.load()) session->cancel();
}

extern "C" void on_bus_error(int) {
  constexpr char kMessage[] =
      "infer: error: the model file was cut short or could not be read while it was mapped; "
      "without --mmap it is read into memory\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kMessage, sizeof(kMessage) - 1);
  end(kExitBadFile);
}

void handle(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, nullptr);
}

}  // namespace

void handle_signals() {
  handle(SIGINT, on_interrupt);
  handle(SIGBUS, on_bus_error);
}

bool interrupted() { return was_interrupted.load(); }

void forget_interrupt() { was_interrupted = false; }

void set_interrupt_hooks(InterruptHooks hooks) {
  hook_outside = hooks.outside;
  hook_ending = hooks.ending;
}

InterruptScope::InterruptScope(Session* session) {
  current_session = session;
  in_scope = true;
}

InterruptScope::~InterruptScope() {
  in_scope = false;
  current_session = nullptr;
}

}  // namespace infer::cli
