// Host memory besides that of devices: the inputs of steps, and the process itself.
#pragma once

#include <cstdint>

#include "engine/backend/device.h"
#include "engine/graph/graph.h"
#include "engine/model/arch.h"
#include "engine/weights/weight_source.h"

namespace infer {

/// RoPE tables of a step, exactly as the executor reserves them.
int64_t rope_table_bytes(const ModelInfo& info, int64_t rows);

/// Bytes of Purpose::host: RoPE tables, the rows of a step, the tokens of one sequence that fills
/// the context, and the work space of a sampler for one sequence.
int64_t host_bytes(const ModelInfo& info, int64_t rows, int64_t outputs, int64_t context);

/// Bytes of a graph and the program compiled from it (part of Purpose::process).
int64_t step_program_bytes(const Graph& graph);

// Further parts of Purpose::process. Their constants were measured; tests/plan compares them with
// the resident size.

/// Bytes of code and of the threads' stacks.
int64_t program_bytes(const DeviceInfo& device);
/// Bytes of a model's metadata and vocabulary.
int64_t model_bytes(const WeightSource& source);

}  // namespace infer
