// One thread in place of all, for steps that all would compute more slowly.
#pragma once

#include <algorithm>

#include "engine/core/thread_pool.h"

namespace infer::cpu {

/// A step that was computed.
struct StepTimes {
  double work;     ///< multiplications
  double seconds;  ///< from its begin to its end
  double busy;     ///< seconds for which its threads had a processor, together
};

/// Says whether the next step is computed by one thread. The bits are the same.
///
/// Threads wait for each other many times in a step. If other programs want their processors, too,
/// each of them waits for its turn, and the others for it: a step then takes several times as long
/// as with one thread. It has come to that where the threads together have less than one processor.
/// One thread is kept only if it is faster, and all are tried again: the later, the more time the
/// last such try has cost.
class ThreadChoice {
 public:
  /// `now`: in seconds, of any clock.
  bool one(double now) const { return now < one_until_; }

  void all_computed(double now, const StepTimes& step) {
    if (step.busy > kOneProcessor * step.seconds) {
      held_up_ = 0;
      return;
    }
    const double speed = step.work / step.seconds;
    speed_of_all_ = held_up_ == 0 ? speed : (speed_of_all_ + speed) / 2;
    ++held_up_;
    if (held_up_ < kTwice || now < all_until_) return;
    one_until_ = now + std::clamp(10 * (step.seconds - step.busy), kShortest, kLongest);
    steps_ = 0;
    work_ = 0;
    seconds_ = 0;
  }

  void one_computed(double now, const StepTimes& step) {
    ++steps_;
    work_ += step.work;
    seconds_ += step.seconds;
    if (steps_ < 4 || work_ >= speed_of_all_ * seconds_) return;
    one_until_ = now;
    all_until_ = now + kLongest;
    held_up_ = 0;
  }

 private:
  static constexpr double kOneProcessor = 0.7;
  static constexpr int kTwice = 2;  ///< a single delay says nothing
  static constexpr double kShortest = 0.02;
  static constexpr double kLongest = 2;

  double one_until_ = 0, all_until_ = 0;
  int held_up_ = 0;          ///< such steps in a row
  double speed_of_all_ = 0;  ///< in such steps
  // Since one thread computes:
  int steps_ = 0;
  double work_ = 0, seconds_ = 0;
};

struct LoneThread {
  ThreadPool pool{1};
  /// Of steps with few rows, and of those with many: their speeds differ.
  ThreadChoice few, many;
};

}  // namespace infer::cpu
