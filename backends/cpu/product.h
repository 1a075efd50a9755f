// Products of weight matrices with columns of activations, shared by matmul, moe_matmul and
// head_matmul. A product is computed tile by tile: a few groups of rows with up to kMaxColumns
// columns. Fused operations (bias, activation, residual) are applied to a tile before it is stored.
#pragma once

#include "backends/cpu/kernels.h"
#include "backends/cpu/packing.h"
#include "engine/core/thread_pool.h"

namespace infer::cpu {

inline constexpr int64_t kMaxColumns = 128;

/// Up to this many rows each thread rounds all activations itself, which is cheaper than a barrier.
inline constexpr int64_t kOwnRows = 4;
/// Products of fewer bytes of weights, times columns, are too small to be shared part by part.
inline constexpr int64_t kSharedBytes = 1 << 20;

/// Columns of one tile: either quantised or float32.
struct Columns {
  int64_t count = 0;
  Panel panel{nullptr, 0};             ///< of quantised activations
  const float* const* rows = nullptr;  ///< of float32 ones
};

/// How a product with weights of one tensor is computed in a context.
struct Product {
  const RowKernel* kernel;  ///< null: rows are decoded to float32
  PackedLayout layout;
  /// True: the rows are interleaved. False: the weights are as in the file. A matrix of a few rows
  /// is never packed, since padding its group would multiply its size.
  bool packed;

  static Product choose(const CpuContext& context, const TensorDesc& w);

  bool quantised() const { return kernel != nullptr; }
  int64_t k() const { return layout.desc.shape[0]; }
  int64_t n() const { return layout.desc.shape[1]; }
  /// Columns of one tile for `rows` rows of activations: as many as fit the cache, in even parts.
  int64_t columns(int64_t rows) const;
  /// Bytes of scratch for each thread.
  int64_t thread_scratch() const;

  /// sums[g][c][r] for `groups` groups of matrix `matrix` from group `group` on.
  void run(const CpuContext& context, const TensorRef& w, int64_t matrix, int64_t group,
           int64_t groups, const Columns& x, float* sums, std::byte* scratch) const;
};

/// Bytes of a weight in this back end's layout.
int64_t stored_bytes(const CpuContext& context, const TensorDesc& w);
/// Row (row, matrix) of a weight as float32. scratch: row_bytes().
void read_row(const CpuContext& context, const TensorRef& w, int64_t row, int64_t matrix,
              std::byte* scratch, float* out);

/// Decodes n weights of any type, in the fastest way for the type.
void decode_row(const VecOps& vec, DType type, const std::byte* w, float* out, int64_t n);

/// Rows of activations in panels of about equal width.
struct PanelSet {
  std::byte* data;
  int64_t k;
  int64_t rows;

  /// Most columns of a panel: as many as fit the cache.
  static int64_t widest(int64_t k);
  /// Columns of each panel except the last, which may be narrower.
  static int64_t width(int64_t k, int64_t rows);
  /// Most bytes that `rows` rows or fewer take.
  static int64_t bytes(int64_t k, int64_t rows);
  Panel panel(int64_t i) const;
};

/// One weight matrix (or one for each expert) with its bias [n, experts] and scale [experts], which
/// may be absent.
struct Matrix {
  Product product;
  TensorRef w, bias, scale;
};

/// The matrices of a call: call.inputs from `begin` on, in groups of (W, bias, scale).
std::vector<Matrix> matrices_of(const CpuCall& call, size_t begin);

/// Where the results of one column go: at the first row of the matrix.
struct Target {
  float* y;
  const float* residual;
};

/// Multiplies groups [groups.begin, groups.end) of expert `expert` with the columns x. Two matrices
/// are the gate and up of call.fused.glu.
void multiply(const CpuCall& call, std::span<const Matrix> matrices, int64_t expert, Range groups,
              const Columns& x, const Target* targets, std::byte* scratch);

}  // namespace infer::cpu
