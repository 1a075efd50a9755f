// Activations of a product, rounded to 8 bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace infer::cpu {

/// Columns of k activations (k a multiple of 32) in the order in which the kernels read them. Each
/// 32 elements of k are a chunk of
///   int8 q[columns][32] · float d[columns] · float s[columns] · int16 sums[columns][2] ·
///   int32 negated_sum[columns]
/// where x ≈ d·q, s = d·Σq, `sums` has Σq of each half, and `negated_sum` is −Σq. If one of the 32
/// activations is infinite or NaN, d and s are NaN.
struct Panel {
  std::byte* data;
  int64_t columns;

  static constexpr int64_t kColumnBytes = 32 + 4 + 4 + 4 + 4;  ///< of a chunk

  static constexpr int64_t chunk_bytes(int64_t columns) {
    return (columns * kColumnBytes + 63) / 64 * 64;
  }
  static constexpr int64_t bytes(int64_t columns, int64_t k) {
    return chunk_bytes(columns) * (k / 32);
  }
};

/// One chunk of a Panel.
struct PanelChunk {
  std::byte* data;
  int64_t columns;

  PanelChunk(const Panel& panel, int64_t index)
      : data(panel.data + Panel::chunk_bytes(panel.columns) * index), columns(panel.columns) {}

  int8_t* q(int64_t column) const { return reinterpret_cast<int8_t*>(data) + column * 32; }
  float* d(int64_t column) const { return reinterpret_cast<float*>(data + columns * 32) + column; }
  float* s(int64_t column) const { return reinterpret_cast<float*>(data + columns * 36) + column; }
  int16_t* sums(int64_t column) const {
    return reinterpret_cast<int16_t*>(data + columns * 40) + column * 2;
  }
  int32_t* negated_sum(int64_t column) const {
    return reinterpret_cast<int32_t*>(data + columns * 44) + column;
  }

  /// Copies column `its` of another chunk to `column`.
  void take(int64_t column, const PanelChunk& other, int64_t its) const {
    std::memcpy(q(column), other.q(its), 32);
    *d(column) = *other.d(its);
    *s(column) = *other.s(its);
    std::memcpy(sums(column), other.sums(its), 2 * sizeof(int16_t));
    *negated_sum(column) = *other.negated_sum(its);
  }
};

}  // namespace infer::cpu
