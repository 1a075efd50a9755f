// How the scans of recurrent layers are shared out: a thread takes columns of a head's state
// through all rows of a step, so that they stay in its cache.
#pragma once

#include <algorithm>
#include <cstring>

#include "backends/cpu/parallel.h"
#include "backends/cpu/row_states.h"
#include "engine/core/portable_math.h"

namespace infer::cpu {

static_assert(kScanColumns == kStateColumns);

/// What a row does with a head, whatever the column.
struct ScanGate {
  float decay;
  float gain;
  float met;
};

/// A head's value in [heads, 1, rows], or [n, heads / n, rows].
inline float of_head(const TensorRef& x, int64_t head, int64_t row) {
  const int64_t n = x.desc.shape[0];
  return x.row<float>(head / n, row)[head % n];
}

inline float softplus(float x) {
  return static_cast<float>((x > 0 ? x : 0) + portable::log1p(portable::exp(x > 0 ? -x : x)));
}

/// Bytes for the gates of each thread's head.
inline int64_t scan_scratch(int64_t rows, int threads) {
  return threads * round_up<int64_t>(rows * int64_t{sizeof(ScanGate)}, 64);
}

/// Columns of a head's state, which a thread takes through all rows of a step.
struct ScanBlock {
  int64_t head;
  int64_t first;  ///< column
  int64_t count;  ///< columns that there are
  int64_t pitch;  ///< elements from one row of S to the next
  int64_t at;     ///< element of the layer's state where they begin
  int64_t size;   ///< elements in memory
};

/// The state and the slots of a scan. Inputs 7 and 8 are slots and sequences.
class Scan {
 public:
  Scan(const CpuCall& call, int32_t kv_layer, int64_t at)
      : call_(call),
        layout_(call.kv_layout.layers[static_cast<size_t>(kv_layer)]),
        pages_(call.pages[static_cast<size_t>(layout_.kind)]),
        at_(at) {}

  /// Calls gate(h, r) once for each row of a head, and token(h, r, gate) for its ScanToken without
  /// what follows from the state; then computes it. `rows` × `columns`: of S.
  template <typename GateFn, typename TokenFn>
  void run(int64_t heads, int64_t rows, int64_t columns, GateFn gate, TokenFn token) const {
    const int64_t tokens = call_.outputs[0].desc.shape[2];
    auto* const gates =
        reinterpret_cast<ScanGate*>(call_.scratch + call_.thread * scan_scratch(tokens, 1));
    int64_t of = -1;  // the head that the gates are of
    each_block(heads, rows, columns, [&](const ScanBlock& block) {
      const int64_t h = block.head;
      if (h != of) {
        for (int64_t r = 0; r < tokens; ++r) gates[r] = gate(h, r);
      }
      of = h;
      const auto made = [&](int64_t r) {
        ScanToken t = token(h, r);
        t.state = state(block, r);
        t.pitch = block.pitch;
        t.rows = rows;
        t.v += block.first;
        t.out += block.first;
        t.decay = gates[r].decay;
        t.gain = gates[r].gain;
        t.met = gates[r].met;
        t.first = begins(r);
        return t;
      };
      alignas(64) float sums[2 * kScanColumns];
      RowStates kept(pages_, layout_.k_offset);
      ScanToken now = made(0);
      for (int64_t r = 0; r < tokens; ++r) {
        ScanToken next{};
        if (r + 1 < tokens) next = made(r + 1);
        next.met_state = next.state == now.state;
        call_.vec().recurrent->scan(now, next.met_state ? &next : nullptr, sums, block.count);
        keep(kept, block, r);
        now = next;
      }
    });
  }

  /// The same where columns have gates of their own: calls start(block), then token(block, r) for
  /// the ScanElements of each row without the state.
  template <typename StartFn, typename TokenFn>
  void run_by_element(int64_t heads, int64_t rows, int64_t columns, StartFn start,
                      TokenFn token) const {
    each_block(heads, rows, columns, [&](const ScanBlock& block) {
      start(block);
      RowStates kept(pages_, layout_.k_offset);
      for (int64_t r = 0; r < call_.outputs[0].desc.shape[2]; ++r) {
        ScanElements t = token(block, r);
        t.state = state(block, r);
        t.pitch = block.pitch;
        t.rows = rows;
        t.first = begins(r);
        call_.vec().recurrent->scan_elements(t, block.count);
        keep(kept, block, r);
      }
    });
  }

 private:
  template <typename Fn>
  void each_block(int64_t heads, int64_t rows, int64_t columns, Fn fn) const {
    const int64_t pitch = round_up(columns, kStatePad);
    const int64_t blocks = div_ceil(columns, kScanColumns);
    const Range range = split_range(heads * blocks, call_.thread, call_.threads());
    for (int64_t unit = range.begin; unit < range.end; ++unit) {
      const int64_t h = unit / blocks;
      const int64_t first = unit % blocks * kScanColumns;
      const int64_t width = std::min(kStateColumns, pitch - first);
      fn(ScanBlock{h, first, std::min(kScanColumns, columns - first), width,
                   at_ + (h * pitch + first) * rows, rows * width});
    }
  }
  int32_t sequence(int64_t r) const { return *call_.inputs[8].row<int32_t>(0, r); }
  bool begins(int64_t r) const { return *call_.inputs[7].row<int32_t>(0, r) == 0; }
  float* state(const ScanBlock& block, int64_t r) const {
    return pages_.state(sequence(r), layout_.k_offset) + block.at;
  }
  /// After a row: copies its state where the step keeps it.
  void keep(RowStates& kept, const ScanBlock& block, int64_t r) const {
    if (float* to = kept.after_row(sequence(r)); to != nullptr) {
      std::memcpy(to + block.at, state(block, r), static_cast<size_t>(block.size) * sizeof(float));
    }
  }

  const CpuCall& call_;
  const KvLayerLayout& layout_;
  const KvPages& pages_;
  int64_t at_;
};

}  // namespace infer::cpu
