// How a session samples: what its caller asked for, else what the model suggests, else the
// defaults.
#pragma once

#include "engine/core/status.h"
#include "engine/sample/sampler.h"
#include "engine/text/tokenizer.h"
#include "engine/weights/metadata.h"
#include "infer/infer.hpp"

namespace infer {

/// invalid_argument for options out of range, bad_file for suggestions of the model that are. The
/// tokenizer outlives the result.
Result<SamplingParams> resolve_sampling(const SamplingOptions& options, const Metadata& metadata,
                                        const Tokenizer& tokenizer);

}  // namespace infer
