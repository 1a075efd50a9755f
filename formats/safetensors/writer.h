// Writing safetensors files.
#pragma once

#include <memory>
#include <string>

#include "engine/weights/weight_sink.h"

namespace infer {

/// Begins the file `path`, to be replaced or made when the sink is finished. All of `metadata` go
/// into `__metadata__`, whose values are strings: numbers are spelt out, arrays as JSON.
///
/// io here; then declare, write and finish give invalid_argument where the calls do not match the
/// declarations, unsupported for a type that the format lacks (quantised ones), and io. After a
/// failure the sink gives the same failure for every call.
Result<std::unique_ptr<WeightSink>> create_safetensors(const std::string& path,
                                                       const Metadata& metadata);

}  // namespace infer
