// The experts of a Hugging Face checkpoint.
#pragma once

#include <string>

#include "engine/model/checkpoint_tensors.h"

namespace infer {

/// Of an expert's three matrices.
struct ExpertNames {
  const char* gate = "gate_proj";
  const char* up = "up_proj";
  const char* down = "down_proj";
};

/// The experts of a layer: one tensor each (`in`.0.gate_proj.weight) or all in one
/// (`in`.gate_up_proj with the gate's rows before the others, `in`.down_proj).
void add_experts(CheckpointTensors& tensors, int64_t layer, const std::string& in, int64_t count,
                 const ExpertNames& names = {});

}  // namespace infer
