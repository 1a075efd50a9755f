// Which weights are matrices, and the type they get where one is asked for while loading.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "engine/weights/weight_source.h"

namespace infer {

/// Whether a weight (by its name in the model) is multiplied with, or looked up in; else it is
/// added to or multiplied with activations, or chooses experts.
bool is_matrix(const std::string& name, std::span<const int64_t> shape);

/// The type that a matrix gets where `wanted` is asked for, which has an encoder. To a quantised
/// type neither the embedding and the output are changed (as in bitsandbytes), nor what is
/// quantised already or has rows of no whole blocks.
DType matrix_type(const std::string& name, DType stored, std::span<const int64_t> shape,
                  DType wanted);

/// A model whose matrices have that type as they are read.
std::unique_ptr<WeightSource> with_matrices(std::unique_ptr<WeightSource> raw, DType wanted);

}  // namespace infer
