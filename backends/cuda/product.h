// Products of weights with activations: what matmul, moe_matmul and head_matmul share, and the
// operations that are fused into them.
#pragma once

#include <array>

#include "backends/cuda/op.h"
#include "backends/cuda/weights/product.h"

namespace infer::cuda {

/// CudaOp's functions for a product.
Status product_supports(const NodeView& node);
void record_single_product(const NodeCall& call);
void record_products(const NodeCall& call, const ProductCall& product);
bool product_takes(const NodeView& product, OpId with, const Tuning& tuning, Roles roles);
/// Memory for the groups of a product with experts, and for many columns as bytes or halves.
int64_t product_scratch(const NodeView& node, const Tuning& tuning, Roles roles);

// What all kinds of products tell their kernels.
/// A weight of the call, and what becomes of its result; without its tiles.
MatrixParams matrix_params(const ProductCall& in, const gpu::ProductWeight& weight);
/// After.
uint32_t what_follows(const ProductCall& in);
/// The weight of the norm before; 0 if it has none, or there is no norm.
uint64_t norm_address(const ProductCall& in);
/// Whether columns begin at multiples of 16 bytes.
bool aligned(const Operand& x);

/// Whether products with weights of a type round their activations to bytes.
bool rounds_activations(DType type, const Tuning& tuning);
/// Runs of a tile whose sums of activations the kernels of a type need (weights/fragments.h:
/// kLeast).
uint32_t summed_runs(DType type);
/// Bytes of 16 rows and kStreamTiles tiles of K in the fragment layout.
uint32_t bytes_of_rows(DType type);
/// Offsets of planes 1 and up of a weight, in units of 16 bytes.
std::array<uint32_t, 4> plane_offsets(const TensorDesc& weight);

}  // namespace infer::cuda
