// Signals. Ctrl-C, SIGTERM and SIGHUP outside of a scope end the program at once with 130, 143 and
// 129. Inside one they ask the work to end by itself; a second one ends the program at once.
#pragma once

#include <functional>

namespace infer::cli {

/// Installs the handlers of these (of SIGHUP only where it is not ignored, as nohup has it), and
/// one of SIGBUS: a model file that is mapped (--mmap) and cut short while in use ends the program
/// with a message in place of a core dump.
void handle_signals();

/// Whether one of the three came in a scope. Any thread.
bool interrupted();
/// 128 and the signal's number: the exit code after such an end.
int interrupt_code();
/// What Ctrl-C asked for is done: the next one is a first one again. Outside of a scope. SIGTERM
/// and SIGHUP are not forgotten.
void forget_interrupt();
/// A file that a handler which ends the program removes before; null: none. The text lives until
/// the next call.
void set_unfinished_file(const char* path);

/// For a program that reads lines from a terminal in modes of its own; both are called in a signal
/// handler, on any thread. Null: nothing else than said above.
struct InterruptHooks {
  void (*outside)() = nullptr;  ///< Ctrl-C outside of a scope, in place of ending the program
  void (*ending)() = nullptr;   ///< before a signal handler of this file ends the program
};
void set_interrupt_hooks(InterruptHooks hooks);

/// Work that ends by itself after such a signal: because `cancel` asks it to, or because it looks
/// at interrupted() often. `cancel` is called in a signal handler, on any thread, once at most: it
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
