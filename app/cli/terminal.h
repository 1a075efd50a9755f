// The terminal while lines are edited on it: bytes and signals in one order, and the modes that it
// had before are put back however the program ends.
#pragma once

#include <csignal>
#include <cstddef>
#include <vector>

namespace infer::cli {

/// stdin, a terminal. One at a time, one thread; while it exists Ctrl-C outside of an
/// InterruptScope is an event and does not end the program.
class Terminal {
 public:
  /// Notes the modes, which are put back before the program is stopped or ended by a signal.
  Terminal();
  /// Leaves the modes as they are.
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  /// The modes as they are now hold between lines: they return after the program was stopped.
  void keep_modes();

  /// Has the terminal mark what is pasted (bracketed paste), until that is switched off or the
  /// program is stopped or ended. See Keys.
  static void mark_pastes(bool on);

  enum class Event {
    byte,
    interrupt,  ///< Ctrl-C, by key or by signal
    resized,
    resumed,  ///< after the program was stopped: what was on the screen may be gone
    closed,   ///< the end of the input, or the terminal is gone
  };
  /// Waits for the next event. Nothing that comes between two calls is lost.
  Event next(char& byte);
  /// What is drawn anew anyway need not be drawn again.
  static void forget_resumed();

 private:
  void handle(int signal, void (*handler)(int));

  struct Handled {
    int signal;
    struct sigaction before;
  };
  std::vector<Handled> handled_;
  int wake_read_ = -1;
  char interrupt_key_ = 0;  ///< 0: none
  size_t cooked_ = 0;       ///< bytes that are waiting since the terminal gathered lines by itself
  char end_key_ = 0;
};

}  // namespace infer::cli
