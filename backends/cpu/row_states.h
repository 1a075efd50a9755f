// Recurrent states that a step keeps from within: Device::keeps_row_states().
#pragma once

#include <cstdint>

#include "engine/graph/kv_geometry.h"

namespace infer::cpu {

/// Says where the states after each row of a step are to be kept as well. The rows of a sequence
/// lie one behind the other.
class RowStates {
 public:
  /// `offset`: bytes of a layer's state in its page.
  RowStates(const KvPages& pages, int64_t offset) : pages_(pages), offset_(offset) {}

  /// To be called after each row, with the row's sequence. Returns the layer's state in the page
  /// that gets a copy of the states, or null if there is no such page.
  float* after_row(int32_t sequence) {
    rows_ = sequence == sequence_ ? rows_ + 1 : 1;
    sequence_ = sequence;
    if (rows_ >= pages_.table_stride) return nullptr;
    if (pages_.block_tables[int64_t{sequence} * pages_.table_stride + rows_] < 0) return nullptr;
    return reinterpret_cast<float*>(pages_.page(sequence, rows_ * kPageTokens) + offset_);
  }

 private:
  const KvPages& pages_;
  int64_t offset_;
  int32_t sequence_ = -1;
  int64_t rows_ = 0;  ///< of that sequence so far
};

}  // namespace infer::cpu
