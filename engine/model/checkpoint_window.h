// Layers of a Hugging Face checkpoint that see a window of the text.
#pragma once

#include "engine/model/checkpoint.h"

namespace infer {

/// sliding_window, unless use_sliding_window says no.
int64_t window_of(CheckpointConfig& config);
/// A failure where some layers have a window, for families that have none here.
void require_no_window(CheckpointMap& m);
/// Writes which layers have a window, as layer_types says it, or sliding_window_pattern P: all but
/// every P-th. `absent`: the P of configurations that say neither. Returns them.
std::vector<bool> map_sliding_layers(CheckpointMap& m, int64_t absent);
/// A failure unless layer_types, where given, has sliding layers just where `sliding` says.
void require_layer_types(CheckpointMap& m, bool (*sliding)(int64_t layer));

}  // namespace infer
