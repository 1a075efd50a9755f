// Writing GGUF files, version 3.
#pragma once

#include <memory>
#include <string>

#include "engine/weights/weight_sink.h"

namespace infer {

/// Begins the file `path`, to be replaced or made when the sink is finished, with all of
/// `metadata`; tensors are aligned to its `general.alignment`, or else to 32 bytes. The data go to
/// a temporary file in the same folder, which is on disk before it takes the name.
///
/// io (no such folder, no space, …) or bad_file (an alignment or a key that the format cannot hold)
/// here; then declare, write and finish give invalid_argument where the calls do not match the
/// declarations, and io. After a failure the sink gives the same failure for every call.
Result<std::unique_ptr<WeightSink>> create_gguf(const std::string& path, const Metadata& metadata);

}  // namespace infer
