// How many calls and barriers the steps of a model take on a device.
#pragma once

#include <doctest.h>

#include <algorithm>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "engine/session/engine_impl.h"
#include "infer/infer.hpp"
#include "tests/support.h"

namespace infer::test {

/// Of one step.
struct StepCounts {
  int64_t calls = 0;       ///< of kernels or groups of them
  int64_t phases = 0;      ///< Device::phases
  int64_t stored = 0;      ///< nodes whose results are put into memory
  int64_t dispatches = 0;  ///< on a device that is sent commands
  int64_t barriers = 0;    ///< likewise

  bool operator==(const StepCounts&) const = default;
};

inline std::ostream& operator<<(std::ostream& out, const StepCounts& c) {
  return out << "{" << c.calls << ", " << c.phases << ", " << c.stored << ", " << c.dispatches
             << ", " << c.barriers << "}";
}

/// Those of a prompt of 33 tokens and of one token after it.
struct ModelCounts {
  std::string name;  ///< of a golden model
  StepCounts prompt;
  StepCounts token;
};

inline ModelCounts count_steps(const std::string& name, Engine& engine) {
  Engine::Impl& impl = EngineAccess::impl(engine);
  StepRecorder recorder(std::max(impl.device().info().threads, 1));
  const auto record = [&](StepRecorder* to) {
    impl.thread->call([&] { impl.scheduler->set_recorder(to); });
  };
  const std::unique_ptr<Session> session = engine.open_session().value();
  record(&recorder);
  for (const size_t rows : {33, 1}) {
    const Status status = session->evaluate(std::vector<int32_t>(rows, 5), {});
    REQUIRE_MESSAGE(status.ok(), status.message());
  }
  record(nullptr);
  REQUIRE(recorder.steps().size() == 2);
  ModelCounts found{name};
  for (const RecordedStep& step : recorder.steps()) {
    StepCounts& counts = step.shape.rows() == 1 ? found.token : found.prompt;
    counts.calls = static_cast<int64_t>(step.phases[0].size());
    for (const PhaseEvent& event : step.phases[0]) {
      counts.dispatches += event.dispatches;
      counts.barriers += event.barriers;
    }
    const auto nodes = static_cast<int32_t>(step.graph->nodes().size());
    for (const NodePhase& node : impl.device().phases({step.graph, 0, nodes})) {
      counts.phases = std::max<int64_t>(counts.phases, node.phase + 1);
      counts.stored += node.stored ? 1 : 0;
    }
  }
  return found;
}

inline void check_counts(const ModelCounts& expected, Engine& engine) {
  const ModelCounts found = count_steps(expected.name, engine);
  INFO(expected.name);
  CHECK(found.prompt == expected.prompt);
  CHECK(found.token == expected.token);
}

inline LoadOptions options_of_counts(const std::string& device) {
  LoadOptions options;
  options.device = device;
  options.threads = 2;
  options.context = 128;
  options.batch_rows = 64;
  options.output_rows = 64;
  options.fewer_rows = false;
  return options;
}

}  // namespace infer::test
