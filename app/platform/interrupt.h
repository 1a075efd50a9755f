// Signals. Outside an InterruptScope Ctrl-C, SIGTERM and SIGHUP end the program at once with exit
// codes 130, 143 and 129. Inside a scope they ask the work to end by itself; a second signal ends
// the program at once.
#pragma once

#include <functional>
#include <string_view>

namespace infer::platform {

/// How the program ends if a mapped file is cut short while it is in use (SIGBUS).
struct BrokenMapping {
  std::string_view message;  ///< a line for stderr; stays valid
  int exit_code = 0;
};

/// Installs handlers for these signals, for SIGHUP only if it is not ignored (as under nohup). Also
/// for SIGBUS, so that there is a message instead of a core dump.
void handle_signals(const BrokenMapping& broken);

/// True if one of the three signals came in a scope. Any thread.
bool interrupted();
/// The exit code after such a signal: 128 plus its number.
int interrupt_code();
/// Called outside a scope when the request of a Ctrl-C has been served: the next Ctrl-C counts as
/// the first one again. SIGTERM and SIGHUP are not forgotten.
void forget_interrupt();
/// From now on SIGHUP ends nothing: hung_up() tells of it. For programs that read their settings
/// again then.
void keep_running_after_hangup();
/// True once after each SIGHUP since the last call, or after several of them.
bool hung_up();
/// Sets a file that the handler removes before it ends the program; null: none. The text must stay
/// valid until the next call.
void set_unfinished_file(const char* path);

/// Hooks for a program that reads lines from a terminal in its own modes. Both are called in a
/// signal handler, on any thread. Null: no hook.
struct InterruptHooks {
  void (*outside)() = nullptr;  ///< called for Ctrl-C outside a scope, instead of ending
  void (*ending)() = nullptr;   ///< called before a signal handler ends the program
};
void set_interrupt_hooks(InterruptHooks hooks);

/// Encloses work that ends by itself after a signal, either because `cancel` is called or because
/// it checks interrupted() often. `cancel` is called at most once, in a signal handler on any
/// thread. It may only call Session::cancel() or set an atomic flag. One scope at a time.
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

}  // namespace infer::platform
