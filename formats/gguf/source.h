// Opened GGUF models: one file, or the parts of a split one.
#pragma once

#include <memory>
#include <string>

#include "engine/weights/weight_source.h"

namespace infer::gguf {

/// Opens a model by its only or its first file; the further parts of a split model lie beside it as
/// PREFIX-00002-of-0000N.gguf. The keys `split.*` are not part of the metadata given out, since
/// what is opened is whole. not_found, io, bad_file or unsupported, naming the file and what is
/// wrong.
Result<std::unique_ptr<WeightSource>> open_source(const std::string& path);

}  // namespace infer::gguf
