// Products of a weight matrix with columns of activations: what matmul and moe_matmul share.
#pragma once

#include "backends/cpu/kernels.h"
#include "engine/core/thread_pool.h"

namespace infer::cpu {

/// Columns that one call of a kernel takes; pointers to them lie on the stack.
inline constexpr int64_t kPanel = 128;

/// How a product with weights of one type is computed in a context.
struct Product {
  const RowKernel* kernel;  ///< null: decode to float32 and multiply
  DType weights;
  int64_t k;

  static Product choose(const CpuContext& context, const TensorDesc& w);
  bool quantised_activations() const { return kernel != nullptr; }
  /// Bytes of one row of activations as run() wants it in scratch; 0: the float32 rows themselves.
  int64_t activation_bytes() const { return kernel != nullptr ? q8_row_bytes(k) : 0; }
  /// Bytes of scratch for each thread.
  int64_t thread_scratch() const { return kernel != nullptr ? 0 : round_up<int64_t>(k * 4, 64); }

  /// y[c][i] = dot(row i of w, x[c]), 0 ≤ i < n, 0 ≤ c < columns ≤ kPanel. x: rows in Q8Row form,
  /// or float32 rows, as quantised_activations() says.
  void run(const CpuCall& call, const std::byte* w, int64_t stride, int64_t n,
           const std::byte* const* x, float* const* y, int64_t columns, std::byte* scratch) const;
};

/// Rounds the rows (h, r) of x into `to`, row h + r·d1 at that many times row_bytes; this thread's
/// share of it. A barrier must follow.
void quantise_rows(const CpuCall& call, const TensorRef& x, std::byte* to, int64_t row_bytes);

/// y = scale·y + bias for finished products: rows `range` of matrix `expert`, y[c] at the range's
/// begin. scale f32 [experts] and bias f32 [n, experts] may be null.
void finish_rows(const VecOps& vec, float* const* y, int64_t columns, Range range,
                 const TensorRef& bias, const TensorRef& scale, int64_t expert);

/// Decodes n weights of any type with the fastest way there is.
void decode_row(const VecOps& vec, DType type, const std::byte* w, float* out, int64_t n);

}  // namespace infer::cpu
