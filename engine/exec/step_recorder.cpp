#include "engine/exec/step_recorder.h"

#include <utility>

namespace infer {

const char* step_part_name(StepPart part) {
  constexpr const char* kNames[kStepParts] = {"schedule", "inputs", "compute", "results", "sample"};
  return kNames[static_cast<size_t>(part)];
}

void StepRecorder::begin_step() {
  for (std::vector<PhaseEvent>& events : step_.phases) events.clear();
  step_.start_ns = profile_clock();
}

void StepRecorder::describe(const Graph& graph, StepShape shape) {
  step_.graph = &graph;
  step_.shape = std::move(shape);
}

void StepRecorder::end_part(StepPart part) {
  step_.end_ns[static_cast<size_t>(part)] = profile_clock();
}

void StepRecorder::end_step() {
  end_part(StepPart::sample);
  steps_.push_back(step_);
}

}  // namespace infer
