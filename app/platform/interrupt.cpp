#include "platform/interrupt.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>
#include <utility>

namespace infer::platform {
namespace {

std::atomic<const InterruptScope*> current_scope{nullptr};
std::atomic<int> handlers_running{0};     // those that may hold current_scope
std::atomic<int> interrupting_signal{0};  // the first one
std::atomic<bool> hangup_came{false};
std::atomic<const char*> unfinished_file{nullptr};
std::atomic<void (*)()> hook_outside{nullptr};
std::atomic<void (*)()> hook_ending{nullptr};
BrokenMapping broken_mapping{};  // set before there is a handler
static_assert(std::atomic<const char*>::is_always_lock_free);
static_assert(std::atomic<int>::is_always_lock_free);
static_assert(std::atomic<const InterruptScope*>::is_always_lock_free);
static_assert(std::atomic<void (*)()>::is_always_lock_free);

[[noreturn]] void end(int code) {
  if (const auto ending = hook_ending.load()) ending();
  if (const char* file = unfinished_file.load()) (void)unlink(file);
  _exit(code);
}

extern "C" void on_interrupt(int signal) {
  ++handlers_running;
  const auto outside = hook_outside.load();
  if (const InterruptScope* scope = current_scope.load()) {
    if (interrupting_signal.exchange(signal) != 0) end(128 + signal);
    scope->cancel();
  } else if (outside != nullptr && signal == SIGINT) {
    outside();
  } else {
    end(128 + signal);
  }
  --handlers_running;
}

extern "C" void on_hangup(int) { hangup_came = true; }

extern "C" void on_bus_error(int) {
  const BrokenMapping& broken = broken_mapping;
  [[maybe_unused]] const ssize_t written =
      write(STDERR_FILENO, broken.message.data(), broken.message.size());
  end(broken.exit_code);
}

void handle(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, nullptr);
}

}  // namespace

void handle_signals(const BrokenMapping& broken) {
  broken_mapping = broken;
  handle(SIGINT, on_interrupt);
  handle(SIGTERM, on_interrupt);
  struct sigaction hangup {};
  sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) handle(SIGHUP, on_interrupt);
  handle(SIGBUS, on_bus_error);
}

bool interrupted() { return interrupting_signal.load() != 0; }

int interrupt_code() {
  const int signal = interrupting_signal.load();
  return 128 + (signal == 0 ? SIGINT : signal);
}

void forget_interrupt() {
  int expected = SIGINT;
  interrupting_signal.compare_exchange_strong(expected, 0);
}

void keep_running_after_hangup() { handle(SIGHUP, on_hangup); }

bool hung_up() { return hangup_came.exchange(false); }

void set_unfinished_file(const char* path) { unfinished_file = path; }

void set_interrupt_hooks(InterruptHooks hooks) {
  hook_outside = hooks.outside;
  hook_ending = hooks.ending;
}

InterruptScope::InterruptScope(std::function<void()> cancel) : cancel_(std::move(cancel)) {
  current_scope = this;
}

InterruptScope::~InterruptScope() {
  current_scope = nullptr;
  // A handler on another thread may have seen this scope just before. One on this thread has ended.
  while (handlers_running.load() > 0) std::this_thread::yield();
}

}  // namespace infer::platform
