// Attention over pages of 64 keys with a running softmax (Milakov & Gimelshein 2018;
// FlashAttention, Dao et al. 2022), and long contexts in chunks (Flash-Decoding, Dao et al. 2023).
//
// A unit of work is a tile of rows of one sequence with query heads that share a kv head: a page's
// keys and values are decoded once for all of them. A row's keys are cut into chunks by its number
// of keys alone. Each chunk has a softmax of its own, and these are combined in the order of the
// keys, be it by one thread that does all of them or after several threads did some each. So tiles
// and threads change no bit.
//
// Keys of a quantised cache are multiplied as weights are: with queries rounded to 8 bits.
//
// Where rows choose the slots that they see, a row is a tile of its own. What it chose is copied
// together, 64 keys at a time, and these take the place of pages.
#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "backends/cpu/cache_types.h"
#include "backends/cpu/parallel.h"
#include "engine/core/portable_math.h"
#include "engine/graph/alibi.h"

namespace infer::cpu {
namespace {

constexpr int64_t kTileQueries = 64;  ///< rows × heads of a unit, or one row with this many heads
constexpr int64_t kFewQueries = 16;   ///< tiles are made no smaller for the sake of more units
constexpr int64_t kChunkPages = 8;    ///< at least
constexpr int64_t kChunks = 32;    ///< about as many at most; one more where a window begins late
constexpr int64_t kSplitRows = 4;  ///< chunks become units of their own in steps of few rows

const KvLayerShape& layer_shape(const KvGeometry& kv, const OpParams& params) {
  return kv.layers[static_cast<size_t>(std::get<op::Attention>(params).kv_layer)];
}

/// Multiplies keys of a quantised cache with queries of 8 bits. Null: queries stay floats.
const RowKernel* key_kernel(const KvGeometry& kv, const CpuContext& context) {
  if (context.exact || !is_quantised(kv.k_type)) return nullptr;
  return context.row_kernel(kv.k_type);
}

/// How the query heads of a layer are spread over units, and the sizes of scratch in floats.
struct Sizes {
  int64_t group, blocks, heads;  ///< heads of a kv head, units they make, and the heads of a unit
  int64_t k_dim, v_pad;
  int64_t most_rows, most_queries;  ///< of a unit
  int64_t chunks;                   ///< of a row at most
  /// For key_kernel(): queries of 8 bits, a page's keys interleaved, and their products.
  int64_t panel_bytes = 0, keys_bytes = 0, products_bytes = 0;
  int64_t gathered_bytes;  ///< keys and values of a page of chosen slots

  /// `window`: slots that a row sees at most; 0: any number. `gathered`: bytes of a chosen slot.
  Sizes(const KvLayerShape& shape, int64_t query_heads, int64_t window, const RowKernel* kernel,
        int64_t gathered)
      : group(query_heads / shape.heads),
        blocks(div_ceil(group, kTileQueries)),
        heads(div_ceil(group, blocks)),
        k_dim(shape.k_dim),
        v_pad(round_up<int64_t>(shape.v_dim, kAttentionPad)),
        most_rows(std::max<int64_t>(1, kTileQueries / heads)),
        most_queries(most_rows * heads),
        chunks(window > 0 ? std::min(kChunks, window / (kPageTokens * kChunkPages) + 1) + 1
                          : kChunks + 1),
        gathered_bytes(round_up<int64_t>(gathered * kPageTokens, 64)) {
    if (kernel == nullptr) return;
    panel_bytes = Panel::bytes(most_queries, k_dim);
    keys_bytes = kPageTokens * k_dim / 32 * dtype_info(kernel->weights).block_bytes;
    products_bytes = most_queries * kPageTokens * int64_t{sizeof(float)};
  }

  int64_t states(int64_t queries) const { return queries * (v_pad + 2); }
  int64_t thread_bytes() const {
    const int64_t floats = most_queries * (k_dim + kPageTokens) + kAttentionSlice * kPageTokens +
                           2 * states(most_queries);
    return round_up<int64_t>(floats * int64_t{sizeof(float)}, 64) + panel_bytes + keys_bytes +
           products_bytes + gathered_bytes;
  }
  int64_t row_states() const { return states(heads * blocks) * chunks; }
};

int64_t first_seen(int64_t slot, const op::Attention& p) {
  if (p.chunked) return slot - slot % p.window;
  return p.window > 0 ? std::max<int64_t>(0, slot - p.window + 1) : 0;
}

/// Bytes of a key and a value that are copied where rows choose what they see.
int64_t gathered_bytes(const KvLayerLayout& at, bool chosen) {
  return chosen ? at.k_row + (at.v_offset == at.k_offset ? 0 : at.v_row) : 0;
}

/// What a row sees, as slots [begin, end) or places in what it chose, and the chunks it is cut
/// into: chunk c holds the pages [c·pages, (c + 1)·pages).
struct Row {
  int64_t begin, end, pages;

  Row(int64_t begin, int64_t end) : begin(begin), end(end) {
    const int64_t seen = last_page() - begin / kPageTokens + 1;
    pages = std::max(kChunkPages, div_ceil(seen, kChunks));
  }
  int64_t last_page() const { return (end - 1) / kPageTokens; }
  int64_t first_chunk() const { return begin / kPageTokens / pages; }
  int64_t last_chunk() const { return last_page() / pages; }
  bool in_chunk(int64_t c) const { return c >= first_chunk() && c <= last_chunk(); }
};

/// Queries' running softmaxes, and the mixes of values that they weigh.
struct States {
  SoftmaxState* softmax;
  float* mixes;

  States(float* at, int64_t queries)
      : softmax(reinterpret_cast<SoftmaxState*>(at)), mixes(at + 2 * queries) {}
};

/// What a sum relative to `old` is worth relative to `best` ≥ old; both may be −∞.
float worth(float old, float best) {
  return old == best ? 1.0f : static_cast<float>(portable::exp(old - best));
}

/// Copies one of the rows that lie as those of `like`, from place `i` to place `j`.
void copy_row(const CacheRows& like, const std::byte* from, int64_t i, std::byte* to, int64_t j) {
  if (!like.across) {
    std::memcpy(to + j * like.stride, from + i * like.stride, static_cast<size_t>(like.stride));
    return;
  }
  const int64_t element = like.stride / like.dim;
  for (int64_t d = 0; d < like.dim; ++d) {
    std::memcpy(to + (d * kPageTokens + j) * element, from + (d * kPageTokens + i) * element,
                static_cast<size_t>(element));
  }
}

/// Rows [first, last) of one sequence whose chunks are of one size, chunks [first_chunk,
/// last_chunk].
struct Tile {
  int64_t first, last, first_chunk, last_chunk;
};

class Attention {
 public:
  explicit Attention(const CpuCall& call)
      : call_(call),
        p_(std::get<op::Attention>(call.params)),
        shape_(layer_shape(call.kv, call.params)),
        at_(call.kv_layout.layers[static_cast<size_t>(p_.kv_layer)]),
        pages_(call.pages[static_cast<size_t>(at_.kind)]),
        ops_(*call.vec().attention),
        q_(call.inputs[0]),
        key_kernel_(key_kernel(call.kv, call.context)),
        sizes_(shape_, q_.desc.shape[1], call.inputs[4].data == nullptr ? p_.window : 0,
               key_kernel_, gathered_bytes(at_, chosen().data != nullptr)) {
    std::byte* const own = call.scratch + call.thread * sizes_.thread_bytes();
    panel_ = own;
    keys_ = panel_ + sizes_.panel_bytes;
    products_ = reinterpret_cast<float*>(keys_ + sizes_.keys_bytes);
    gathered_ = own + sizes_.panel_bytes + sizes_.keys_bytes + sizes_.products_bytes;
    float* scratch = reinterpret_cast<float*>(gathered_ + sizes_.gathered_bytes);
    const auto take = [&](int64_t floats) { return std::exchange(scratch, scratch + floats); };
    queries_ = take(sizes_.most_queries * sizes_.k_dim);
    scores_ = take(sizes_.most_queries * kPageTokens);
    slice_ = take(kAttentionSlice * kPageTokens);
    own_ = take(sizes_.states(sizes_.most_queries));
    total_ = take(sizes_.states(sizes_.most_queries));
    shared_ = reinterpret_cast<float*>(call.scratch + call.threads() * sizes_.thread_bytes());
  }

  void run() {
    // Smaller tiles where the rows would not make enough of them for all threads.
    const int64_t wanted = div_ceil(rows() * shape_.heads * sizes_.blocks, 4 * threads());
    const int64_t few = div_ceil(kFewQueries, sizes_.heads);
    tile_rows_ = chosen().data != nullptr ? 1 : std::min(sizes_.most_rows, std::max(wanted, few));
    if (chunks_are_units()) {
      for_my_items([&](const auto& take) {
        for_each_unit([&](const Tile& tile, int64_t unit) {
          bool prepared = false;
          for (int64_t c = tile.first_chunk; c <= tile.last_chunk; ++c) {
            if (!take()) continue;
            if (!prepared) load_queries(tile, unit);
            prepared = true;
            visit(tile, unit, c, shared_states(tile, unit, c));
          }
        });
      });
      call_.context.pool->barrier();
      for_my_items([&](const auto& take) {
        for_each_unit([&](const Tile& tile, int64_t unit) {
          if (!take()) return;
          for (int64_t c = tile.first_chunk; c <= tile.last_chunk; ++c) {
            combine(tile, c, shared_states(tile, unit, c));
          }
          finish(tile, unit);
        });
      });
    } else {
      for_my_items([&](const auto& take) {
        for_each_unit([&](const Tile& tile, int64_t unit) {
          if (!take()) return;
          load_queries(tile, unit);
          for (int64_t c = tile.first_chunk; c <= tile.last_chunk; ++c) {
            const States states(own_, queries(tile));
            visit(tile, unit, c, states);
            combine(tile, c, states);
          }
          finish(tile, unit);
        });
      });
    }
  }

 private:
  int64_t rows() const { return q_.desc.shape[2]; }
  int64_t threads() const { return call_.threads(); }
  int64_t queries(const Tile& tile) const { return (tile.last - tile.first) * sizes_.heads; }
  const TensorRef& chosen() const { return call_.inputs[5]; }
  Row row(int64_t r) const {
    const int32_t slot = *call_.inputs[1].row<int32_t>(0, r);
    if (chosen().data != nullptr) {
      return {0, op::SelectSlots::given(slot, chosen().desc.shape[0], p_.chosen_block,
                                        p_.chosen_by_head)};
    }
    const TensorRef& last = call_.inputs[4];
    return {first_seen(slot, p_), (last.data == nullptr ? slot : *last.row<int32_t>(0, r)) + 1};
  }
  int32_t sequence(int64_t r) const { return *call_.inputs[2].row<int32_t>(0, r); }
  int64_t kv_head(int64_t unit) const { return unit / sizes_.blocks; }
  /// The g-th query head of a unit; the last block of a group may have fewer, and repeats its last.
  int64_t head(int64_t unit, int64_t g) const {
    const int64_t in_group = unit % sizes_.blocks * sizes_.heads + g;
    return kv_head(unit) * sizes_.group + std::min(in_group, sizes_.group - 1);
  }

  /// Calls visit(take), which calls take() once for each of its items: whether it is this thread's.
  template <typename Visit>
  void for_my_items(const Visit& visit) const {
    WorkShare::Queue queue = call_.context.pool->work().queue(call_.thread);
    int64_t item = 0;
    int64_t mine = 0;
    bool has_one = false;  // that it has not met yet: the next is taken when this one is done
    visit([&] {
      if (!has_one) mine = queue.next();
      has_one = item++ != mine;
      return !has_one;
    });
  }

  /// Calls fn(tile, unit) for 0 ≤ unit < kv heads × blocks of every tile, in one order everywhere.
  template <typename Fn>
  void for_each_unit(Fn fn) const {
    for (int64_t first = 0; first < rows();) {
      const Row start = row(first);
      Tile tile{first, first + 1, start.first_chunk(), start.last_chunk()};
      for (; tile.last < rows() && tile.last - first < tile_rows_; ++tile.last) {
        const Row next = row(tile.last);
        if (sequence(tile.last) != sequence(first) || next.pages != start.pages) break;
        const int64_t first_chunk = std::min(tile.first_chunk, next.first_chunk());
        const int64_t last_chunk = std::max(tile.last_chunk, next.last_chunk());
        if (last_chunk - first_chunk >= sizes_.chunks) break;
        tile.first_chunk = first_chunk;
        tile.last_chunk = last_chunk;
      }
      for (int64_t unit = 0; unit < shape_.heads * sizes_.blocks; ++unit) fn(tile, unit);
      first = tile.last;
    }
  }

  /// Whether units are too few for the threads, or shared out unevenly.
  bool chunks_are_units() const {
    if (threads() == 1 || rows() > kSplitRows) return false;
    int64_t units = 0;
    int64_t parts = 0;
    for_each_unit([&](const Tile& tile, int64_t) {
      ++units;
      parts += tile.last_chunk - tile.first_chunk + 1;
    });
    return parts > units && units < 4 * threads() && units % threads() != 0;
  }

  States shared_states(const Tile& tile, int64_t unit, int64_t chunk) const {
    const int64_t each = sizes_.states(queries(tile));
    const int64_t place = unit * sizes_.chunks + chunk - tile.first_chunk;
    return {shared_ + tile.first * shape_.heads * sizes_.row_states() + place * each,
            queries(tile)};
  }

  /// Queries of the unit, scaled; in 8 bits for the kernel of keys.
  void load_queries(const Tile& tile, int64_t unit) const {
    const Panel panel{panel_, queries(tile)};
    float* to = queries_;
    int64_t m = 0;
    for (int64_t r = tile.first; r < tile.last; ++r) {
      for (int64_t g = 0; g < sizes_.heads; ++g, ++m, to += shape_.k_dim) {
        call_.vec().scale_mul(to, q_.row<float>(head(unit, g), r), nullptr, p_.scale, shape_.k_dim);
        if (key_kernel_ != nullptr) call_.vec().quantise(to, shape_.k_dim, panel, m);
      }
    }
  }

  /// scores_ of `count` queries of 8 bits against a page's keys.
  void score_quantised(const CacheRows& keys, int64_t count, Visible any) const {
    ops_.interleave(keys, any, keys_);
    const int64_t rows = key_kernel_->rows;
    const int64_t first = any.begin / rows * rows;
    key_kernel_->run(keys_ + first * keys.stride, div_ceil(any.end - first, rows), keys.dim,
                     {panel_, count}, 1, products_);
    const float* from = products_;
    for (int64_t j = first; j < any.end; j += rows) {
      for (int64_t m = 0; m < count; ++m, from += rows) {
        std::memcpy(scores_ + m * kPageTokens + j, from, static_cast<size_t>(rows) * sizeof(float));
      }
    }
  }

  /// The states of the unit's queries after one chunk of their keys.
  void visit(const Tile& tile, int64_t unit, int64_t chunk, const States& states) const {
    const int64_t count = queries(tile);
    std::fill_n(states.softmax, count, SoftmaxState{-std::numeric_limits<float>::infinity(), 0.0f});
    std::fill_n(states.mixes, count * sizes_.v_pad, 0.0f);
    const int64_t pages = row(tile.first).pages;
    Visible visible[kTileQueries];
    for (int64_t page = chunk * pages; page < (chunk + 1) * pages; ++page) {
      const int64_t start = page * kPageTokens;
      Visible any{kPageTokens, 0};
      Visible* next = visible;
      for (int64_t r = tile.first; r < tile.last; ++r) {
        const Row seen = row(r);
        const auto in_page = [&](int64_t slot) {
          return static_cast<int32_t>(std::clamp<int64_t>(slot - start, 0, kPageTokens));
        };
        const Visible part{in_page(seen.begin), in_page(seen.end)};
        next = std::fill_n(next, sizes_.heads, part);
        if (part.empty()) continue;
        any = {std::min(any.begin, part.begin), std::max(any.end, part.end)};
      }
      if (!any.empty()) visit_page(tile, unit, page, visible, any, states);
    }
  }

  void visit_page(const Tile& tile, int64_t unit, int64_t page, const Visible* visible, Visible any,
                  const States& states) const {
    const int64_t count = queries(tile);
    const int64_t before = kv_head(unit) * kPageTokens;
    const bool last = page >= row(tile.last - 1).last_page();
    // Completed: where the rows are, or where those that were chosen are copied to.
    const auto rows = [&](CacheRows all, int64_t offset, std::byte* copied) {
      const auto in = [&](int64_t slot) {
        return pages_.page(sequence(tile.first), slot) + offset + before * all.stride;
      };
      if (chosen().data == nullptr) {
        all.data = in(page * kPageTokens);
        if (!last) all.next = in((page + 1) * kPageTokens);
        return all;
      }
      const int64_t list = chosen().desc.shape[1] > 1 ? kv_head(unit) : 0;
      const int32_t* slots = chosen().row<int32_t>(list, tile.first) + page * kPageTokens;
      for (int32_t j = any.begin; j < any.end; ++j) {
        copy_row(all, in(slots[j]), slots[j] % kPageTokens, copied, j);
      }
      all.data = copied;
      return all;
    };
    const CacheRows keys =
        rows({call_.kv.k_type, at_.k_element > 0, nullptr, at_.k_row, shape_.k_dim, nullptr},
             at_.k_offset, gathered_);
    CacheRows values{call_.kv.v_type, false, keys.data, at_.v_row, shape_.v_dim, nullptr};
    if (at_.v_offset != at_.k_offset) {  // else they are fetched with the keys
      values = rows(values, at_.v_offset, gathered_ + kPageTokens * at_.k_row);
    }
    if (key_kernel_ != nullptr) {
      score_quantised(keys, count, any);
    } else {
      ops_.scores(queries_, count, keys, visible, any, slice_, scores_);
    }
    if (p_.alibi > 0) add_biases(tile, unit, page, any);
    ops_.soften(scores_, count, visible, p_.softcap, states.softmax, states.mixes, sizes_.v_pad);
    ops_.mix(scores_, count, values, visible, any, slice_, states.mixes, sizes_.v_pad);
  }

  void add_biases(const Tile& tile, int64_t unit, int64_t page, Visible any) const {
    float* scores = scores_;
    for (int64_t r = tile.first; r < tile.last; ++r) {
      const int64_t distance = *call_.inputs[1].row<int32_t>(0, r) - page * kPageTokens;
      for (int64_t g = 0; g < sizes_.heads; ++g, scores += kPageTokens) {
        const float slope =
            p_.alibi_factor * alibi_slope(head(unit, g), q_.desc.shape[1], p_.alibi);
        for (int32_t j = any.begin; j < any.end; ++j) {
          scores[j] -= slope * static_cast<float>(std::abs(distance - j));
        }
      }
    }
  }

  /// Takes a chunk's states into the total of the rows that it is a part of.
  void combine(const Tile& tile, int64_t chunk, const States& states) const {
    const States total(total_, queries(tile));
    int64_t m = 0;
    for (int64_t r = tile.first; r < tile.last; ++r) {
      const Row seen = row(r);
      for (int64_t g = 0; g < sizes_.heads; ++g, ++m) {
        if (!seen.in_chunk(chunk)) continue;
        const SoftmaxState& part = states.softmax[m];
        SoftmaxState& all = total.softmax[m];
        const float* mix = states.mixes + m * sizes_.v_pad;
        float* mixed = total.mixes + m * sizes_.v_pad;
        if (chunk == seen.first_chunk()) {
          all = part;
          std::copy_n(mix, sizes_.v_pad, mixed);
          continue;
        }
        const float best = std::max(all.best, part.best);
        const float keep = worth(all.best, best);
        const float take = worth(part.best, best);
        all = {best, all.sum * keep + part.sum * take};
        call_.vec().scale_mul(mixed, mixed, nullptr, keep, sizes_.v_pad);
        call_.vec().axpy(mixed, take, mix, sizes_.v_pad);
      }
    }
  }

  /// The results of the unit, from the totals.
  void finish(const Tile& tile, int64_t unit) const {
    const States total(total_, queries(tile));
    const TensorRef& sinks = call_.inputs[3];
    int64_t m = 0;
    for (int64_t r = tile.first; r < tile.last; ++r) {
      for (int64_t g = 0; g < sizes_.heads; ++g, ++m) {
        const SoftmaxState& s = total.softmax[m];
        const int64_t h = head(unit, g);
        float factor = 1.0f / s.sum;
        if (sinks.data != nullptr) {
          const float sink = sinks.row<float>(0, 0)[h];
          const float best = std::max(s.best, sink);
          const auto keep = static_cast<float>(portable::exp(s.best - best));
          factor = keep / (s.sum * keep + static_cast<float>(portable::exp(sink - best)));
        }
        call_.vec().scale_mul(call_.outputs[0].row<float>(h, r), total.mixes + m * sizes_.v_pad,
                              nullptr, factor, shape_.v_dim);
      }
    }
  }

  const CpuCall& call_;
  const op::Attention& p_;
  const KvLayerShape& shape_;
  const KvLayerLayout& at_;
  const KvPages& pages_;
  const AttentionOps& ops_;
  const TensorRef& q_;
  const RowKernel* const key_kernel_;
  const Sizes sizes_;
  int64_t tile_rows_ = 1;
  // This thread's scratch, then the chunks' states that all threads share.
  std::byte *panel_, *keys_, *gathered_;
  float* products_;
  float *queries_, *scores_, *slice_, *own_, *total_, *shared_;
};

int64_t scratch(const NodeView& node, const CpuContext& context) {
  const auto& p = std::get<op::Attention>(node.node.params);
  const KvLayerShape& shape = layer_shape(node.graph.kv(), node.node.params);
  const TensorDesc& q = node.input(0)->desc;
  const int64_t window = node.input(4) == nullptr ? p.window : 0;
  const KvLayout layout = canonical_kv_layout(node.graph.kv());
  const Sizes sizes(
      shape, q.shape[1], window, key_kernel(node.graph.kv(), context),
      gathered_bytes(layout.layers[static_cast<size_t>(p.kv_layer)], node.input(5) != nullptr));
  const int64_t rows = context.threads() > 1 ? std::min(q.shape[2], kSplitRows) : 0;
  const int64_t shared = rows * shape.heads * sizes.row_states() * int64_t{sizeof(float)};
  return sizes.thread_bytes() * context.threads() + round_up<int64_t>(shared, 64);
}

void run(const CpuCall& call) { Attention(call).run(); }

}  // namespace

const CpuOp& attention_cpu() {
  static const CpuOp op{OpId::Attention, Sharing::whole, reads_cache, scratch, run};
  return op;
}

}  // namespace infer::cpu
