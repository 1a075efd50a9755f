// The parameters of RoPE in a Hugging Face checkpoint.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/model/checkpoint.h"

namespace infer {

/// What stands before their keys: "rope_scaling." or such.
std::string rope_section(const CheckpointConfig& config);

/// Writes them as GGUF's keys and factors, for heads of so many elements. Returns the elements of a
/// head that are rotated, halved; 0 after a failure.
int64_t map_rope(CheckpointMap& m, const Family& family, int64_t head_dim);

/// Fails unless RoPE is the plain one.
void require_plain_rope(CheckpointMap& m);

/// Writes the base and the turned elements of layers with a window, where they have a RoPE of their
/// own: set_windows_with_own_rope().
void map_window_rope(CheckpointMap& m, int64_t head_dim);

/// Writes LongRoPE's factors (Ding et al. 2024), if the checkpoint has it: for families with
/// Family::long_rope. Returns whether it has.
bool map_long_rope(CheckpointMap& m);

/// Writes how many pairs each axis of an image turns (read_axes()), for models that have images.
/// `absent`: of configurations that do not say.
void map_axes(CheckpointMap& m, std::vector<int64_t> absent = {});

}  // namespace infer
