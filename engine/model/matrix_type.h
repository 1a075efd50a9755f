// Which weights are matrices, and the type they get if the user asks for one while loading.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "engine/weights/weight_source.h"

namespace infer {

/// True for a weight (by its name in the model) that is a factor of a matrix product or a table to
/// look up in. False for norms, biases, scales and routers.
bool is_matrix(const std::string& name, std::span<const int64_t> shape);

/// The type that a matrix gets if the user asks for `wanted`, a type with an encoder. If `wanted`
/// is quantised, these keep their type: the embedding and the output (as in bitsandbytes), matrices
/// that are already quantised, and matrices whose rows are not whole blocks.
DType matrix_type(const std::string& name, DType stored, std::span<const int64_t> shape,
                  DType wanted);

/// A source whose matrices are converted to that type when they are read.
std::unique_ptr<WeightSource> with_matrices(std::unique_ptr<WeightSource> raw, DType wanted);

/// A source whose weights have the forms that architectures read: convolutions of recurrent layers
/// are F32 (some writers store them as F16 or BF16), and matrices of groups that lie in one
/// ("attn_output_a" of DeepSeek-V4) are one for each.
std::unique_ptr<WeightSource> with_usual_forms(std::unique_ptr<WeightSource> raw);

}  // namespace infer
