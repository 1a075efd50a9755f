// What a program tells about its run: when each of its phases began and ended on each thread.
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

/// One thread's part of one phase: a call of a kernel, which may cover several nodes.
struct PhaseEvent {
  std::span<const int32_t> nodes;  ///< indices in the graph; lives as long as the program
  int32_t thread = 0;
  int64_t start_ns = 0;
  int64_t worked_ns = 0;   ///< this thread's own part was done
  int64_t end_ns = 0;      ///< the next phase begins: past the barrier, where there is one
  int32_t dispatches = 0;  ///< of shaders, on devices that are sent commands
  int32_t barriers = 0;    ///< likewise, those that such a device waits at
};

/// Receives the events of a run, phase by phase. record() is called by all threads at once, each
/// with its own number.
class Profiler {
 public:
  virtual ~Profiler() = default;
  virtual void record(const PhaseEvent& event) = 0;
};

}  // namespace infer
