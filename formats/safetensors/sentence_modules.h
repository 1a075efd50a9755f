// What sentence-transformers keeps beside a checkpoint: modules.json, which says how the vectors of
// tokens become those of texts.
#pragma once

#include <functional>
#include <string>

#include "engine/weights/metadata.h"

namespace infer::safetensors {

/// Adds a file of weights; their names begin with `prefix`.
using AddWeights = std::function<Status(const std::string& path, const std::string& prefix)>;

/// Reads modules.json of a directory, if it is there. Sets the key "hf.pooling" to mean, cls or
/// last, and adds the weights of dense modules, which begin with "sentence.dense_2." and so on.
/// Errors: bad_file, unsupported for modules and poolings that the engine does not compute.
Status read_sentence_modules(const std::string& directory, Metadata& out, const AddWeights& add);

}  // namespace infer::safetensors
