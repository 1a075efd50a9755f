// A progress bar on stderr. It appears only on a terminal, only after a while, and is erased at the
// end.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace infer::cli {

/// One bar at a time; one thread at a time.
class Progress {
 public:
  /// `label` says what the program does, e.g. "loading". The bar is never drawn if it is not
  /// wanted, if stderr is not a terminal, or if the terminal cannot rewrite its line (TERM=dumb).
  Progress(std::string label, bool wanted);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `done` goes from 0 to 1; 1 erases the bar. `detail` is shown after the bar. Draws only if
  /// something has changed; with a detail, only a few times a second.
  void update(double done, std::string_view detail = {});

 private:
  std::string label_;
  bool shown_;
  int drawn_ = -1;  ///< percent on the line; −1: none
  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point drawn_at_;
};

/// Erases the bar that is drawn, if any: before anything else is written to stderr.
void erase_progress();

}  // namespace infer::cli
