// Memory of the host beside a device's: what a step's inputs take and what the process itself does.
#pragma once

#include <cstdint>

#include "engine/backend/device.h"
#include "engine/graph/graph.h"
#include "engine/model/arch.h"
#include "engine/weights/weight_source.h"

namespace infer {

/// RoPE tables of a step, exactly as the executor reserves them.
int64_t rope_table_bytes(const ModelInfo& info, int64_t rows);

/// Everything of Purpose::host: RoPE tables, the rows of a step, the tokens of one sequence that
/// fills the context, and a sampler's work space for one sequence.
int64_t host_bytes(const ModelInfo& info, int64_t rows, int64_t outputs, int64_t context);

/// A graph with the program compiled from it.
int64_t step_program_bytes(const Graph& graph);

// Of Purpose::process besides. The constants are measured (tests/plan holds them against the
// resident size).

/// Code and threads' stacks.
int64_t program_bytes(const DeviceInfo& device);
/// A model's metadata and vocabulary.
int64_t model_bytes(const WeightSource& source);

}  // namespace infer
