// A line on stderr that says how far something long is: only on a terminal, only once it has taken
// a while, gone when it is done.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace infer::cli {

/// One bar at a time; one thread at a time.
class Progress {
 public:
  /// `label` says what is done, e.g. "loading". A bar that is not wanted is never drawn; nor is one
  /// where stderr is no terminal or one that cannot rewrite its line (TERM=dumb).
  Progress(std::string label, bool wanted);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `done` from 0 to 1; 1 erases the bar. `detail` stands behind the bar. Draws only what has
  /// changed, with a detail a few times a second.
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
