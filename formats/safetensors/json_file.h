// Small JSON files beside a checkpoint's weights, flattened into keys.
#pragma once

#include <string>

#include "engine/weights/metadata.h"

namespace infer::safetensors {

/// Adds everything in the JSON object of a file to `out`, under `prefix` and the path to it:
/// {"a": {"b": [1, 2]}} gives PREFIXa.b = i64 [1, 2]. Whole numbers are i64 (u64 beyond it), others
/// f64; an array whose elements are all integers, numbers, bools or strings is one value,
/// any other has its elements' indices as keys; null and what is empty are left out.
/// not_found, io, or bad_file naming the place: invalid JSON, a key that appears twice, more than
/// 64 MiB, 400,000 values, 16 levels or 512 bytes of a path.
Status read_json_file(const std::string& path, const std::string& prefix, Metadata& out);

/// Python writes numbers that JSON does not have, such as the limit [0.0, Infinity]. They become
/// null, which counts as absent.
std::string without_infinities(std::string text);

}  // namespace infer::safetensors
