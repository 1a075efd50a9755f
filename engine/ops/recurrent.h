// What the operations of recurrent layers share: their state in the cache.
#pragma once

#include <algorithm>
#include <cmath>

#include "engine/core/checked.h"
#include "engine/ops/op.h"

namespace infer {

/// The state of a case.
inline KvLayerShape state_shape(int64_t elements) {
  KvLayerShape shape;
  shape.state = elements;
  return shape;
}

/// Fails (internal) unless the layer keeps a state of at least `elements`, and the inputs from
/// `slots` on are slots and sequences.
inline Status check_state(const char* op, InputDescs in, size_t slots, const KvGeometry& kv,
                          int32_t layer, int64_t elements) {
  INFER_CHECK(check_shape(op,
                          static_cast<size_t>(layer) < kv.layers.size() &&
                              kv.layers[static_cast<size_t>(layer)].state >= elements,
                          "a layer with a state as large", in));
  return check_shape(op,
                     in[slots]->desc.type == DType::i32 && in[slots + 1]->desc.type == DType::i32,
                     "slots and sequences", in);
}

/// The layer's state of a row's sequence. Input number `slots` are the slots, the next one the
/// sequences.
inline float* state_of(const RefCall& call, int32_t layer, size_t slots, int64_t row) {
  const KvLayerLayout& at = call.kv_layout.layers[static_cast<size_t>(layer)];
  return call.pages[static_cast<size_t>(at.kind)].state(
      *call.inputs[slots + 1].row<int32_t>(0, row), at.k_offset);
}

/// A head's value in [heads, 1, rows], or [n, heads / n, rows].
inline float of_head(const TensorRef& x, int64_t head, int64_t row) {
  const int64_t n = x.desc.shape[0];
  return x.row<float>(head / n, row)[head % n];
}

inline double softplus(double x) {
  return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
}

/// What a head of a scan does with a token, all in double but the state, which is float32.
struct ReferenceScan {
  float* state;  ///< of the head
  int64_t rows, columns;
  std::span<const double> decays;  ///< of its rows
  bool first;                      ///< of its sequence: the state is zero

  double at(int64_t i, int64_t c) const {
    return first ? 0.0 : decays[static_cast<size_t>(i)] * element(i, c);
  }
  float& element(int64_t i, int64_t c) const {
    const int64_t before = c / kStateColumns * kStateColumns;
    const int64_t width = std::min(kStateColumns, round_up(columns, kStatePad) - before);
    return state[before * rows + i * width + c - before];
  }
  /// Σ_i x[i]·decay·S[i, c].
  double read(const float* x, int64_t c) const {
    double sum = 0;
    for (int64_t i = 0; i < rows; ++i) sum += x[i] * at(i, c);
    return sum;
  }
  /// S ← decay·S + x·y in column c.
  void write(const float* x, double y, int64_t c) const {
    for (int64_t i = 0; i < rows; ++i) element(i, c) = static_cast<float>(at(i, c) + x[i] * y);
  }
};

}  // namespace infer
