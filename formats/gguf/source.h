// Opened GGUF models: one file, or the parts of a split one.
#pragma once

#include <memory>
#include <string>

#include "engine/weights/weight_source.h"

namespace infer::gguf {

/// Opens a model by its only file, or by the first file of a split model. The further parts are in
/// the same folder as PREFIX-00002-of-0000N.gguf. The metadata has no keys `split.*`, since the
/// source stands for the whole model. Errors: not_found, io, bad_file or unsupported, with the file
/// and what is wrong.
Result<std::unique_ptr<WeightSource>> open_source(const std::string& path);

}  // namespace infer::gguf
