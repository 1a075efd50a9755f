#include "backends/cuda/ops/scan.h"

#include "backends/cuda/device/cache.h"
#include "backends/cuda/device/curves.h"

// A block takes 64 columns of a head's matrix S through the rows of the step, one after the other,
// and keeps them in registers. A thread has a quarter of the rows of one column, every fourth group
// of four. Block z of n does this for the sequences whose number modulo n is z.
namespace infer::cuda {

/// kGroups: groups of four rows of a thread. kByChannel: as in op::DeltaScan. kByElement: as in
/// op::SsmScan.
template <uint32_t kGroups, bool kByChannel, bool kByElement>
class Scan {
 public:
  static constexpr uint32_t kRows = kGroups * 4 * kScanParts;
  static constexpr uint32_t kLoads = (kRows + kScanThreads - 1) / kScanThreads;

  INFER_DEVICE explicit Scan(const ScanParams& params)
      : p_(params),
        part_(thread() / kScanColumns),
        column_(block_x() * kScanColumns + thread() % kScanColumns),
        head_(block_y()),
        given_(column_ < params.columns),
        rows_(step_rows(params.step, gpu::kTokenRows)) {}

  INFER_DEVICE void run() {
    // What is written and read: of the row that is computed, of the next one, and of the one
    // before, which others may still need.
    INFER_SHARED(float, written, 3 * kRows);
    INFER_SHARED(float, wanted, 3 * kRows);
    INFER_SHARED(float, decays, kByChannel ? 3 * kRows : 1);  // of each row of S
    // Sums of the parts, of two rows in turn.
    INFER_SHARED(float, found_parts, 2 * kScanThreads);
    INFER_SHARED(float, result_parts, 2 * kScanThreads);
    INFER_SHARED(float, met_parts, 2 * kScanThreads);
    uint32_t r = next_row(0);
    if (r >= rows_) return;
    const bool corrects = p_.gain != 0;
    const bool sloped = p_.slope > 0.0f;
    float a = 0;
    float bias = 0;
    float pass = 0;
    if constexpr (kByElement) {
      load_rates();
      if (given_) pass = Global<const float>(p_.pass)[head_ * p_.columns + column_];
    } else {
      a = sloped ? slope_of_head() : static_cast<float>(Global<const float>(p_.a)[head_]);
      if (!kByChannel && !sloped) bias = Global<const float>(p_.bias)[head_];
      if (p_.pass != 0) pass = Global<const float>(p_.pass)[head_];
    }
    const auto stage = [&](const Token& t, uint32_t turn) {
#pragma unroll
      for (uint32_t i = 0; i < kLoads; ++i) {
        const uint32_t e = thread() + i * kScanThreads;
        if (e >= kRows) continue;
        written[turn * kRows + e] = t.written[i];
        wanted[turn * kRows + e] = t.wanted[i];
        if constexpr (kByChannel) decays[turn * kRows + e] = t.decays[i];
      }
    };
    Token token = token_of(r);
    stage(token, 0);
    sync_block();
    uint32_t held = sequence_of(r);
    if (slot_of(r) != 0) load(held);
    uint32_t turn = 0;   // of written and wanted
    uint32_t other = 0;  // of the parts
    while (true) {
      const uint32_t next = next_row(r + 1);
      const bool more = next < rows_;
      Token coming = token;
      if (more) coming = token_of(next);
      if (const uint32_t sequence = sequence_of(r); sequence != held) {
        save(held);
        held = sequence;
        if (slot_of(r) != 0) load(held);
      }
      if (slot_of(r) == 0) clear();
      const float size = sloped ? 1.0f : softplus_of(token.size + bias);
      const float decay = kByChannel || kByElement ? 1.0f : exp_of(a * size);
      const float gain = corrects ? sigmoid_of(token.gain) : size;

      const uint32_t from = turn * kRows + part_ * 4;
      if constexpr (kByElement) {
#pragma unroll
        for (uint32_t j = 0; j < kGroups * 4; ++j) state_[j] = state_[j] * exp_of(rates_[j] * size);
      }
      if constexpr (kByChannel) {
#pragma unroll
        for (uint32_t j = 0; j < kGroups; ++j) {
          const float4 d = load_shared<float4>(decays, from + j * 4 * kScanParts);
          const float ds[4] = {d.x, d.y, d.z, d.w};
#pragma unroll
          for (uint32_t e = 0; e < 4; ++e) state_[j * 4 + e] = state_[j * 4 + e] * ds[e];
        }
      }
      float found[4] = {};
      float result[4] = {};
      float met[4] = {};
#pragma unroll
      for (uint32_t j = 0; j < kGroups; ++j) {
        const float4 w = load_shared<float4>(written, from + j * 4 * kScanParts);
        const float4 q = load_shared<float4>(wanted, from + j * 4 * kScanParts);
        const float ws[4] = {w.x, w.y, w.z, w.w};
        const float qs[4] = {q.x, q.y, q.z, q.w};
#pragma unroll
        for (uint32_t e = 0; e < 4; ++e) {
          found[e] = fused(ws[e], state_[j * 4 + e], found[e]);
          result[e] = fused(qs[e], state_[j * 4 + e], result[e]);
          met[e] = fused(ws[e], qs[e], met[e]);
        }
      }
      const uint32_t own = other * kScanThreads + thread();
      found_parts[own] = (found[0] + found[1]) + (found[2] + found[3]);
      result_parts[own] = (result[0] + result[1]) + (result[2] + result[3]);
      met_parts[own] = (met[0] + met[1]) + (met[2] + met[3]);
      if (more) stage(coming, (turn + 1) % 3);
      sync_block();
      float all_found = 0;
      float all_result = 0;
      float all_met = 0;
#pragma unroll
      for (uint32_t i = 0; i < kScanParts; ++i) {
        const uint32_t of = other * kScanThreads + i * kScanColumns + thread() % kScanColumns;
        all_found = all_found + found_parts[of];
        all_result = all_result + result_parts[of];
        all_met = all_met + met_parts[of];
      }
      const float off = corrects ? fused(-(decay * p_.write_scale), all_found, token.v) : token.v;
      const float change = off * gain;
      if (part_ == 0 && given_) {
        float y = all_result * (decay * p_.read_scale);
        y = fused(all_met * (p_.write_scale * p_.read_scale), change, y);
        Global<float>(p_.y)[place(p_.y_strides, head_, r) + column_] = fused(pass, token.v, y);
      }
      const float scaled = change * p_.write_scale;
#pragma unroll
      for (uint32_t j = 0; j < kGroups; ++j) {
        const float4 w = load_shared<float4>(written, from + j * 4 * kScanParts);
        const float ws[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
        for (uint32_t e = 0; e < 4; ++e) {
          state_[j * 4 + e] = fused(ws[e], scaled, state_[j * 4 + e] * decay);
        }
      }
      if (!more) break;
      r = next;
      token = coming;
      turn = (turn + 1) % 3;
      other ^= 1;
    }
    save(held);
  }

 private:
  /// What a row gives to this thread.
  struct Token {
    float written[kLoads], wanted[kLoads];
    float decays[kByChannel ? kLoads : 1];
    float v, size, gain;
  };

  INFER_DEVICE uint32_t sequence_of(uint32_t r) const {
    return static_cast<uint32_t>(Global<const int32_t>(p_.sequences)[r]);
  }
  INFER_DEVICE int32_t slot_of(uint32_t r) const { return Global<const int32_t>(p_.slots)[r]; }

  /// The first row from r on whose sequence is this block's.
  INFER_DEVICE uint32_t next_row(uint32_t r) const {
    while (r < rows_ && sequence_of(r) % p_.sharing != block_z()) ++r;
    return r;
  }

  INFER_DEVICE float of_head(uint64_t x, const StridePush& strides, uint32_t width,
                             uint32_t r) const {
    return Global<const float>(x)[place(strides, head_ / width, r) + head_ % width];
  }

  INFER_DEVICE float slope_of_head() const {
    const float place = static_cast<float>(head_ + 1) / static_cast<float>(p_.heads);
    return -p_.slope * exp_of(-5.5451774f * place);  // 8·log 2
  }

  INFER_DEVICE float decay_of(uint32_t r, uint32_t channel) const {
    const float step = Global<const float>(p_.size)[place(p_.size_strides, head_, r) + channel];
    const float bias = Global<const float>(p_.bias)[head_ * p_.rows + channel];
    const float a = Global<const float>(p_.a)[head_];
    if (p_.bound < 0.0f) return exp_of(p_.bound * sigmoid_of(magnitude_of(a) * (step + bias)));
    return exp_of(a * softplus_of(step + bias));
  }

  INFER_DEVICE Token token_of(uint32_t r) const {
    Token t;
    const uint32_t from = p_.tiled != 0 ? head_ % p_.keys : head_ / (p_.heads / p_.keys);
    const uint32_t write = place(p_.write_strides, from, r);
    const uint32_t read = place(p_.read_strides, from, r);
#pragma unroll
    for (uint32_t i = 0; i < kLoads; ++i) {
      const uint32_t e = thread() + i * kScanThreads;
      t.written[i] = e < p_.rows ? Global<const float>(p_.write)[write + e] : 0.0f;
      t.wanted[i] = e < p_.rows ? Global<const float>(p_.read)[read + e] : 0.0f;
      if constexpr (kByChannel) {
        t.decays[i] = e < p_.rows ? decay_of(r, e) : 0.0f;
      }
    }
    t.v = given_ ? Global<const float>(p_.v)[place(p_.v_strides, head_, r) + column_] : 0.0f;
    t.size = 0;
    if constexpr (kByElement) {
      if (given_) t.size = Global<const float>(p_.size)[place(p_.size_strides, head_, r) + column_];
    } else if (!kByChannel && p_.size != 0) {
      t.size = of_head(p_.size, p_.size_strides, p_.size_width, r);
    }
    t.gain = p_.gain != 0 ? of_head(p_.gain, p_.gain_strides, p_.gain_width, r) : 0.0f;
    return t;
  }

  /// The row of S that is the j-th of this thread.
  INFER_DEVICE uint32_t row_of(uint32_t j) const {
    return (j / 4 * kScanParts + part_) * 4 + j % 4;
  }

  INFER_DEVICE void load_rates() {
    const Global<const float> a(p_.a);
#pragma unroll
    for (uint32_t j = 0; j < kGroups * 4; ++j) {
      const uint32_t i = row_of(j);
      if (!given_ || i >= p_.rows) continue;
      rates_[kByElement ? j : 0] = a[(head_ * p_.columns + column_) * p_.rows + i];
    }
  }

  /// visit(place, value) for each element that this thread has of a sequence's state.
  template <typename Visit>
  INFER_DEVICE void each(uint32_t sequence, const Visit& visit) {
    const uint32_t pitch = (p_.columns + kScanPad - 1) / kScanPad * kScanPad;
    const uint32_t first = block_x() * kScanColumns;
    // Here, not before the loop over rows, where 64 places would take registers.
    const uint32_t width = kept(pitch - first < kScanColumns ? pitch - first : kScanColumns);
    const uint64_t from =
        uint64_t{head_} * p_.rows * pitch + uint64_t{first} * p_.rows + thread() % kScanColumns;
    const Global<float> state(pages_of(p_.step, p_.kind).of(sequence, 0) + p_.offset + from * 4);
#pragma unroll
    for (uint32_t j = 0; j < kGroups * 4; ++j) {
      const uint32_t i = row_of(j);
      visit(state, given_ && i < p_.rows, i * width, state_[j]);
    }
  }
  INFER_DEVICE void load(uint32_t sequence) {
    each(sequence, [](const Global<float>& state, bool has, uint32_t at, float& to) {
      to = has ? state[at] : 0.0f;
    });
  }
  INFER_DEVICE void save(uint32_t sequence) {
    each(sequence, [](const Global<float>& state, bool has, uint32_t at, float& from) {
      if (has) state[at] = from;
    });
  }
  INFER_DEVICE void clear() {
#pragma unroll
    for (uint32_t j = 0; j < kGroups * 4; ++j) state_[j] = 0;
  }

  const ScanParams& p_;
  uint32_t part_, column_, head_;
  bool given_;  ///< there is such a column
  uint32_t rows_;
  float state_[kGroups * 4] = {};
  float rates_[kByElement ? kGroups * 4 : 1] = {};  ///< what these decay with
};

#define INFER_SCAN(name, rows, by_channel, by_element, blocks)      \
  INFER_KERNEL(name, ScanParams, kScanThreads, blocks) {            \
    Scan<rows / (4 * kScanParts), by_channel, by_element>(p).run(); \
  }
INFER_SCAN(scan_64, 64, false, false, 2)
INFER_SCAN(scan_128, 128, false, false, 2)
INFER_SCAN(scan_256, 256, false, false, 1)
INFER_SCAN(scan_by_channel_64, 64, true, false, 2)
INFER_SCAN(scan_by_channel_128, 128, true, false, 2)
INFER_SCAN(scan_by_channel_256, 256, true, false, 1)
INFER_SCAN(scan_by_element_16, 16, false, true, 4)
INFER_SCAN(scan_by_element_128, 128, false, true, 1)

}  // namespace infer::cuda
