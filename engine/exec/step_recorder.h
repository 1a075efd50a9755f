// Records the times of steps: the parts of a step on the host one after another, and within the
// part `compute` the phases of the program on every thread.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "engine/backend/profiler.h"
#include "engine/exec/work.h"

namespace infer {

/// The parts of a step in their order. Each begins when the one before ends.
enum class StepPart : uint8_t {
  schedule,  ///< choosing the rows and filling their vectors
  inputs,    ///< getting the program, filling RoPE tables, setting pointers
  compute,   ///< running the program
  results,   ///< copying logits to the host
  sample,    ///< samplers, text, callbacks
};
inline constexpr int kStepParts = 5;
const char* step_part_name(StepPart part);

struct RecordedStep {
  const Graph* graph = nullptr;  ///< lives as long as the executor
  StepShape shape;
  int64_t start_ns = 0;
  std::array<int64_t, kStepParts> end_ns{};     ///< by StepPart
  std::vector<std::vector<PhaseEvent>> phases;  ///< by thread
  int64_t end() const { return end_ns[kStepParts - 1]; }
  int64_t start(StepPart part) const {
    const auto i = static_cast<size_t>(part);
    return i == 0 ? start_ns : end_ns[i - 1];
  }
  int64_t end(StepPart part) const { return end_ns[static_cast<size_t>(part)]; }
};

/// Not thread-safe, except record(). If a step is not ended, the next begin_step() drops it.
class StepRecorder final : public Profiler {
 public:
  explicit StepRecorder(int32_t threads) { step_.phases.resize(static_cast<size_t>(threads)); }

  void begin_step();
  /// Sets the graph and the shape of the step, before it is computed.
  void describe(const Graph& graph, StepShape shape);
  void end_part(StepPart part);
  void end_step();
  void record(const PhaseEvent& event) override {
    step_.phases[static_cast<size_t>(event.thread)].push_back(event);
  }

  const std::vector<RecordedStep>& steps() const { return steps_; }

 private:
  RecordedStep step_;
  std::vector<RecordedStep> steps_;
};

}  // namespace infer
