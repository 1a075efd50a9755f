// Kernels of attention, cache rows and rotary positions, one table for each instruction set.
//
// Queries come as rows of `pad` floats with zeros behind their elements, and so do the decoded keys
// and values of a block; `pad` is a multiple of kAttentionPad, so that no kernel has a remainder.
// Whatever a kernel computes for one query depends on that query and the keys it sees alone.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/core/dtype.h"

namespace infer::cpu {

/// In floats: the widest vector of any instruction set.
inline constexpr int64_t kAttentionPad = 16;
/// Keys that are decoded at once; a multiple of four that divides a page.
inline constexpr int64_t kAttentionBlock = 16;

/// The keys [begin, end) of a page that a query sees, 0 ≤ begin ≤ end ≤ kPageTokens.
struct Visible {
  int32_t begin;
  int32_t end;
  bool empty() const { return begin >= end; }
};

/// A running softmax: the largest score so far and Σ exp(score − best).
struct SoftmaxState {
  float best;
  float sum;
};

struct AttentionOps {
  /// Decodes `rows` rows of n elements, `stride` bytes apart, to rows of `pad` ≥ n floats with
  /// zeros behind. False, with nothing done, for a type that has no kernel.
  bool (*decode)(DType type, const std::byte* from, int64_t stride, int64_t rows, int64_t n,
                 float* to, int64_t pad);
  /// scores[m][j] = q[m]·keys[j − first] for every j of the block [first, first + kAttentionBlock)
  /// that query m sees; others of the block may be written as well. q and keys: rows of `pad`
  /// floats; scores: rows of kPageTokens.
  void (*scores)(const float* q, int64_t queries, const float* keys, int64_t pad,
                 const Visible* visible, int64_t first, float* scores);
  /// Takes a page's scores of each query into its softmax: scores[m][j] becomes the weight
  /// exp(s − best), with s = cap·tanh(score/cap) where cap > 0, and mixes[m] is scaled by what the
  /// old best is worth against the new one. Leaves the queries that see nothing as they are.
  void (*soften)(float* scores, int64_t queries, const Visible* visible, float cap,
                 SoftmaxState* states, float* mixes, int64_t pad);
  /// mixes[m] += Σ_j weights[m][j]·values[j − first] over the j of the block that query m sees, in
  /// ascending order. values and mixes: rows of `pad` floats; weights: rows of kPageTokens.
  void (*mix)(const float* weights, int64_t queries, const float* values, int64_t pad,
              const Visible* visible, int64_t first, float* mixes);
  /// n finite elements, a multiple of 32, as blocks of type Q8_0.
  void (*encode_q8_0)(const float* x, std::byte* to, int64_t n);
  /// Turns `pairs` pairs of x by the angles of `turn` (cos, sin, cos, sin, …): (x[2p], x[2p + 1])
  /// if interleaved, else (x[p], x[p + pairs]). y does not overlap x.
  void (*rope)(float* y, const float* x, const float* turn, int64_t pairs, bool interleaved);
};

}  // namespace infer::cpu
