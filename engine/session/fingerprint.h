// Whose pages a saved session holds.
#pragma once

#include <cstdint>

#include "engine/session/engine_impl.h"

namespace infer {

/// Of all that keys and values depend on beside the tokens: the model, the cache's types and
/// layout, how it is computed. Models are told apart by what their metadata say (except of texts)
/// and by the names, shapes and first bytes of all weights; adapters likewise, with their factors
/// (Sequence::adapters). io if the model cannot be read.
Result<uint64_t> model_fingerprint(const OpenedModel& opened, std::span<const float> adapters);

/// Of what a file's weights compute. io if it cannot be read.
Result<uint64_t> weights_fingerprint(const WeightSource& source);

}  // namespace infer
