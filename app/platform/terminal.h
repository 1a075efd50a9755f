// The terminal while lines are edited on it. Delivers bytes and signals in one order. Restores the
// terminal's modes however the program ends.
#pragma once

#include <cstddef>
#include <vector>

namespace infer::platform {

/// stdin, which is a terminal. Not thread-safe, and only one object at a time. While it exists,
/// Ctrl-C outside an InterruptScope is an event and does not end the program.
class Terminal {
 public:
  /// Saves the terminal's modes. They are restored before a signal stops or ends the program.
  Terminal();
  /// Does not change the modes.
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  /// Makes the present modes those between lines: they are set again after the program was stopped.
  void keep_modes();

  /// Makes the terminal mark pasted text (bracketed paste; see Keys). Switched off by false, and
  /// when the program is stopped or ends.
  static void mark_pastes(bool on);

  enum class Event {
    byte,
    interrupt,  ///< Ctrl-C, by key or by signal
    resized,
    resumed,  ///< the program continues after a stop; the screen may have changed
    closed,   ///< the end of the input, or the terminal is gone
  };
  /// Waits for the next event. Nothing between two calls is lost.
  Event next(char& byte);
  /// Whether bytes are there that next() has not delivered.
  static bool has_more();
  /// Drops a pending `resumed` event, for callers that redraw anyway.
  static void forget_resumed();

 private:
  void handle(int signal, void (*handler)(int));

  struct Handled;
  std::vector<Handled> handled_;
  int wake_read_ = -1;
  char interrupt_key_ = 0;  ///< 0: none
  size_t cooked_ = 0;       ///< bytes that are waiting since the terminal gathered lines by itself
  char end_key_ = 0;
};

}  // namespace infer::platform
