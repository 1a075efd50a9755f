// Attention among the rows of texts on tensor cores.
#include "backends/cuda/device/attend_tile.h"
#include "backends/cuda/device/text_rows.h"

namespace infer::cuda {

/// Where the float16 of a head of keys or values begin; `matrix`: heads before it, of keys or both.
template <uint32_t kSize>
INFER_DEVICE uint64_t halves_of(const TextAttentionParams& p, uint32_t matrix, uint32_t row) {
  return p.halves + (uint64_t{matrix} * p.most_rows + row) * kSize * 2;
}

/// Grid: blocks of words, heads of keys, keys and values.
template <uint32_t kSize>
INFER_DEVICE void make_halves(const TextAttentionParams& p) {
  constexpr uint32_t kWords = kSize / 2;
  const uint32_t word = block_x() * kTextHalves + thread();
  const uint32_t row = word / kWords;
  if (row >= step_rows(p.step, p.rows)) return;
  const bool values = block_z() > 0;
  const Global<const float> from(values ? p.v : p.k);
  const uint32_t at = place(values ? p.v_strides : p.k_strides, block_y(), row);
  const uint32_t elements = values ? p.v_dim : p.k_dim;
  const uint32_t i = word % kWords * 2;
  // Values that a row does not see are multiplied by 0, which no infinity and no NaN survives.
  const auto half_range = [&](float x) {
    return values ? least_of(most_of(x, -kMostHalf), kMostHalf) : limited(x);
  };
  const float low = i < elements ? half_range(from[at + i]) : 0.0f;
  const float high = i + 1 < elements ? half_range(from[at + i + 1]) : 0.0f;
  const Global<uint32_t> to(halves_of<kSize>(p, block_z() * grid_y() + block_y(), row));
  to[word % kWords] = packed_halves(low, high);
}

/// Pages are 64 rows of a text, by the row that they begin with.
template <uint32_t kSize>
struct TextSource {
  using Tile = AttentionTile<kSize, kSize>;
  static constexpr bool kBiases = true;
  const TextAttentionParams& p;

  INFER_DEVICE TileRows rows() const { return {0, step_rows(p.step, p.rows)}; }
  INFER_DEVICE uint32_t begin_of(uint32_t row) const {
    return static_cast<uint32_t>(Global<const int32_t>(p.begins)[row]);
  }
  INFER_DEVICE uint32_t position(uint32_t row) const { return row - begin_of(row); }
  INFER_DEVICE float slope(uint32_t head) const {
    return p.slopes != 0 ? Global<const float>(p.slopes)[head] : 0.0f;
  }
  INFER_DEVICE Seen seen(uint32_t row) const {
    const SeenRows rows = seen_rows(p, row);
    const uint32_t begin = begin_of(row);
    return {rows.begin - begin, rows.end - 1 - begin};
  }
  /// Later rows of a text see nothing that is before or behind all that earlier ones see.
  INFER_DEVICE Run run_of(uint32_t begin, uint32_t end) const {
    const auto text_end = static_cast<uint32_t>(Global<const int32_t>(p.ends)[begin]);
    const uint32_t last = (end < text_end ? end : text_end) - 1;
    const Seen of_first = seen(begin);
    const Seen of_last = seen(last);
    return {begin,         last - begin + 1, begin_of(begin), of_first.first,
            of_last.first, of_first.slot,    of_last.slot};
  }
  INFER_DEVICE float query(uint32_t at, uint32_t i) const {
    return i < p.k_dim ? Global<const float>(p.q)[at + i] : 0.0f;
  }
  INFER_DEVICE uint64_t page(uint32_t text_begin, uint32_t token) const {
    return text_begin + token / kPageTokens * kPageTokens;
  }
  INFER_DEVICE bool across() const { return false; }
  INFER_DEVICE uint32_t value_elements() const { return p.v_dim; }

  INFER_DEVICE void copy_keys(const SharedPtr<uint32_t>& to, uint32_t head, uint64_t page,
                              uint32_t token, uint32_t last) const {
    const auto row = static_cast<uint32_t>(page) + token % kPageTokens;
    copy_matrix<Tile::kTokens, kSize, Tile::kKeyRow>(to, halves_of<kSize>(p, head, row), kSize * 2,
                                                     last - token + 1);
  }
  INFER_DEVICE void copy_values(const SharedPtr<uint32_t>& to, uint32_t head, uint64_t page,
                                uint32_t token, uint32_t end) const {
    const auto row = static_cast<uint32_t>(page) + token % kPageTokens;
    copy_matrix<Tile::kTokens, kSize, Tile::kValueRow>(
        to, halves_of<kSize>(p, grid_x() + head, row), kSize * 2, end);
  }
  INFER_DEVICE void take_keys(const SharedPtr<uint32_t>&) const { sync_block(); }
  INFER_DEVICE void take_values(const SharedPtr<uint32_t>&, uint32_t) const { sync_block(); }
};

#define INFER_TEXT_TILE(size, blocks)                                                    \
  INFER_KERNEL(text_attention_tile_halves_##size, TextAttentionParams, kTextHalves, 4) { \
    make_halves<size>(p);                                                                \
  }                                                                                      \
  INFER_KERNEL(text_attention_tile_##size, TextAttentionParams, kTileThreads, blocks) {  \
    attend_tile<size, size>(TextSource<size>{p});                                        \
  }
INFER_TEXT_TILES(INFER_TEXT_TILE)

}  // namespace infer::cuda
