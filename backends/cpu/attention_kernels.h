// Kernels of attention, cache rows and rotary positions, one table for each instruction set.
//
// Whatever a kernel computes for one query depends on that query and the keys it sees alone. Keys
// and values are decoded slice by slice: up to kAttentionSlice elements of each key of a page,
// which stay in the first-level cache while every query meets them. A few queries meet them as they
// are stored.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/core/dtype.h"

namespace infer::cpu {

/// Elements of a slice, a multiple of every block of a cache type; as many as a page has keys, so
/// that keys and values take the same memory.
inline constexpr int64_t kAttentionSlice = 64;
/// Rows of mixes are padded to a multiple of this many floats, the widest vector there is.
inline constexpr int64_t kAttentionPad = 16;

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

/// The keys or the values of one kv head in a page: kPageTokens rows of dim elements, `stride`
/// bytes apart; or, where they lie across, dim rows of one element each of kPageTokens keys. The
/// type is f32, f16, bf16, q8_0 or q4_0.
struct CacheRows {
  DType type;
  bool across;
  const std::byte* data;
  int64_t stride;
  int64_t dim;
  const std::byte* next;  ///< those of the page to come, to be fetched ahead; may be null
};

/// `any`: the keys that at least one of the queries sees; no others are read. `slice`: work space
/// of kAttentionSlice × kPageTokens floats. Scores and weights: rows of kPageTokens floats.
struct AttentionOps {
  /// scores[m][j] = q[m]·key j for every j that query m sees; others may be written as well.
  /// q: rows of as many floats as keys have.
  void (*scores)(const float* q, int64_t queries, const CacheRows& keys, const Visible* visible,
                 Visible any, float* slice, float* scores);
  /// Lays out keys of type Q8_0 or Q4_0 as the type's RowKernel reads weights, in groups of as many
  /// keys as it has rows: those groups in which `any` has keys, of which the others become zeros.
  /// `to`: as many bytes as the page's keys.
  void (*interleave)(const CacheRows& keys, Visible any, std::byte* to);
  /// Takes a page's scores of each query into its softmax: scores[m][j] becomes the weight
  /// exp(s − best), with s = cap·tanh(score/cap) where cap > 0, and mixes[m] is scaled by what the
  /// old best is worth against the new one. Leaves the queries that see nothing as they are.
  void (*soften)(float* scores, int64_t queries, const Visible* visible, float cap,
                 SoftmaxState* states, float* mixes, int64_t pad);
  /// mixes[m] += Σ_j weights[m][j]·value j over the j that query m sees, in ascending order.
  /// mixes: rows of `pad` floats, a multiple of kAttentionPad.
  void (*mix)(const float* weights, int64_t queries, const CacheRows& values,
              const Visible* visible, Visible any, float* slice, float* mixes, int64_t pad);
  /// n finite elements, a multiple of 32, as blocks of type Q8_0.
  void (*encode_q8_0)(const float* x, std::byte* to, int64_t n);
  /// Turns `pairs` pairs of x by the angles of `turn` (cos, sin, cos, sin, …): (x[2p], x[2p + 1])
  /// if interleaved, else (x[p], x[p + pairs]). y does not overlap x.
  void (*rope)(float* y, const float* x, const float* turn, int64_t pairs, bool interleaved);
  /// y = scale·H·x with the Hadamard matrix H of order n, a power of two, in the natural order. y
  /// does not overlap x.
  void (*hadamard)(float* y, const float* x, float scale, int64_t n);
};

}  // namespace infer::cpu
