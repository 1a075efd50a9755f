// Products by tensor cores of 16-bit numbers, for the tokens of prompts, if the tuning says so:
// they are a numeric class of their own then. Of weights of 16 bits (weights/half_tile.cu), and on
// some GPUs of quantised ones (weights/decoded_tile.cu).
#pragma once

#include "backends/cuda/op.h"

namespace infer::cuda {

/// Whether a node is a product that is computed so for tokens of prompts. Not products of experts,
/// nor those that choose them, nor those of rows whose results are wanted.
bool uses_halves(const NodeView& node, const Tuning& tuning, Roles roles);
/// Bytes of work space for its columns as numbers of 16 bits.
int64_t halves_scratch(const NodeView& node);

/// Records the products of the tokens of prompts, which come last in a step.
void record_halves(const NodeCall& call, const ProductCall& in);

}  // namespace infer::cuda
