// Times of a program's run: when each phase started and ended on each thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>

namespace infer {

/// Nanoseconds of a steady clock.
inline int64_t profile_clock() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// The part of one thread in one phase: one call of a kernel, which may compute several nodes.
struct PhaseEvent {
  std::span<const int32_t> nodes;  ///< graph nodes that the call computes; valid with the program
  int32_t thread = 0;
  int64_t start_ns = 0;
  int64_t worked_ns = 0;   ///< end of this thread's own work
  int64_t end_ns = 0;      ///< start of the next phase, after the barrier if there is one
  int32_t dispatches = 0;  ///< GPU: dispatches of shaders
  int32_t barriers = 0;    ///< GPU: barriers between dispatches
};

/// Receives the events of a run. All threads call record() at the same time, each with its own
/// PhaseEvent::thread and in the order of the phases.
class Profiler {
 public:
  virtual ~Profiler() = default;
  virtual void record(const PhaseEvent& event) = 0;
};

}  // namespace infer
