// Checkpoints whose projections have a row for each input, as GPT-2's: the library's Conv1D.
#pragma once

#include <cstdint>
#include <span>

#include "engine/model/checkpoint.h"

namespace infer {

struct TurnedMatrix {
  const char* from;  ///< within a layer
  const char* to;    ///< within a block
  int64_t inputs, outputs;
};

/// Turns these matrices of every layer, and copies their biases. Masks that older files store are
/// left out.
void map_turned(CheckpointMap& m, std::span<const TurnedMatrix> matrices);

}  // namespace infer
