// Signals. Ctrl-C outside of a scope ends the program at once with 130. Inside one it asks the
// work to end by itself; a second Ctrl-C ends the program at once.
#pragma once

#include <functional>

namespace infer::cli {

/// Installs the handler of SIGINT, and one of SIGBUS: a model file that is mapped (--mmap) and cut
/// short while in use ends the program with a message in place of a core dump.
void handle_signals();

/// Whether Ctrl-C was pressed in a scope. Any thread.
bool interrupted();
/// What Ctrl-C asked for is done: the next one is a first one again. Outside of a scope.
void forget_interrupt();

/// For a program that reads lines from a terminal in modes of its own; both are called in a signal
/// handler, on any thread. Null: nothing else than said above.
struct InterruptHooks {
  void (*outside)() = nullptr;  ///< Ctrl-C outside of a scope, in place of ending the program
  void (*ending)() = nullptr;   ///< before a signal handler of this file ends the program
};
void set_interrupt_hooks(InterruptHooks hooks);

/// Work that ends by itself after Ctrl-C: because `cancel` asks it to, or because it looks at
/// interrupted() often. `cancel` is called in a signal handler, on any thread, once at most: it
/// calls Session::cancel() or sets an atomic flag, and nothing else. One scope at a time.
class InterruptScope {
 public:
  explicit InterruptScope(std::function<void()> cancel = {});
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

  void cancel() const {
    if (cancel_) cancel_();
  }

 private:
  std::function<void()> cancel_;
};

}  // namespace infer::cli
