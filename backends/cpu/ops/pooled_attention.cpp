// Attention over a window of slots and blocks of slots together, with a running softmax over 64
// keys at a time: those of the window, then those of the blocks.
//
// A unit of work is a row with some of its heads, which all meet the same keys. These are copied
// together from the pages of both layers. What a query gets depends on itself and its keys alone,
// so it makes no difference how rows and heads are shared out.
#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "backends/cpu/cache_types.h"
#include "backends/cpu/parallel.h"
#include "engine/core/portable_math.h"

namespace infer::cpu {
namespace {

constexpr int64_t kMostHeads = 64;  ///< of a unit
constexpr int64_t kFewHeads = 8;    ///< units get no fewer for the sake of more of them

/// Sizes of a thread's scratch.
struct Sizes {
  int64_t heads;  ///< of a unit, at most
  int64_t k_dim, v_pad, k_row, v_row;

  Sizes(const KvLayerShape& shape, const KvLayerLayout& at, int64_t query_heads)
      : heads(std::min(kMostHeads, query_heads)),
        k_dim(shape.k_dim),
        v_pad(round_up<int64_t>(shape.v_dim, kAttentionPad)),
        k_row(at.k_row),
        v_row(at.v_offset == at.k_offset ? 0 : at.v_row) {}

  int64_t floats() const {
    return heads * (k_dim + kPageTokens + v_pad + 2) + kAttentionSlice * kPageTokens;
  }
  int64_t copied_bytes() const { return round_up<int64_t>((k_row + v_row) * kPageTokens, 64); }
  int64_t thread_bytes() const {
    return copied_bytes() + round_up<int64_t>(floats() * int64_t{sizeof(float)}, 64);
  }
};

class PooledAttention {
 public:
  explicit PooledAttention(const CpuCall& call)
      : call_(call),
        p_(std::get<op::PooledAttention>(call.params)),
        slots_(call, p_.kv_layer),
        blocks_(call, p_.pooled_layer),
        ops_(*call.vec().attention),
        q_(call.inputs[0]),
        sizes_(slots_.shape, slots_.at, q_.desc.shape[1]) {
    std::byte* const own = call.scratch + call.thread * sizes_.thread_bytes();
    keys_ = own;
    values_ = own + sizes_.k_row * kPageTokens;
    float* scratch = reinterpret_cast<float*>(own + sizes_.copied_bytes());
    const auto take = [&](int64_t floats) { return std::exchange(scratch, scratch + floats); };
    queries_ = take(sizes_.heads * sizes_.k_dim);
    scores_ = take(sizes_.heads * kPageTokens);
    mixes_ = take(sizes_.heads * sizes_.v_pad);
    states_ = reinterpret_cast<SoftmaxState*>(take(sizes_.heads * 2));
    slice_ = take(kAttentionSlice * kPageTokens);
  }

  void run() const {
    const int64_t all = q_.desc.shape[1];
    const int64_t rows = q_.desc.shape[2];
    const int64_t wanted = div_ceil<int64_t>(rows * all, 4 * call_.threads());
    const int64_t heads = std::clamp(wanted, std::min(kFewHeads, sizes_.heads), sizes_.heads);
    const int64_t of_row = div_ceil(all, heads);
    call_.context.pool->work().share(call_.thread, rows * of_row, false,
                                     [&](int64_t begin, int64_t end) {
                                       for (int64_t i = begin; i < end; ++i) {
                                         const int64_t first = i % of_row * heads;
                                         attend(i / of_row, first, std::min(heads, all - first));
                                       }
                                     });
  }

 private:
  /// One of the two layers.
  struct Layer {
    const KvLayerShape& shape;
    const KvLayerLayout& at;
    const KvPages& pages;

    Layer(const CpuCall& call, int32_t layer)
        : shape(call.kv.layers[static_cast<size_t>(layer)]),
          at(call.kv_layout.layers[static_cast<size_t>(layer)]),
          pages(call.pages[static_cast<size_t>(at.kind)]) {}
  };

  void attend(int64_t r, int64_t first, int64_t heads) const {
    for (int64_t h = 0; h < heads; ++h) {
      call_.vec().scale_mul(queries_ + h * sizes_.k_dim, q_.row<float>(first + h, r), nullptr,
                            p_.scale, sizes_.k_dim);
    }
    std::fill_n(states_, heads, SoftmaxState{-std::numeric_limits<float>::infinity(), 0.0f});
    std::fill_n(mixes_, heads * sizes_.v_pad, 0.0f);
    const int64_t slot = *call_.inputs[1].row<int32_t>(0, r);
    const int32_t sequence = *call_.inputs[2].row<int32_t>(0, r);
    const TensorRef& chosen = call_.inputs[4];
    const int64_t tokens = blocks_.shape.tokens;
    const int64_t begin = std::max<int64_t>(0, slot - p_.window + 1);
    const int64_t seen = slot + 1 - begin;
    const int64_t most = chosen.data == nullptr ? slot + 1 : chosen.desc.shape[0];
    const int64_t count = seen + op::PooledAttention::blocks(slot, tokens, most);
    int64_t copied = 0;
    for (int64_t i = 0; i < count; ++i) {
      if (i < seen) {
        copy(slots_, sequence, begin + i, copied++);
      } else {
        const int64_t block =
            chosen.data == nullptr ? i - seen : chosen.row<int32_t>(0, r)[i - seen];
        copy(blocks_, sequence, (block + 1) * tokens - 1, copied++);
      }
      if (copied < kPageTokens && i + 1 < count) continue;
      meet(heads, static_cast<int32_t>(copied));
      copied = 0;
    }
    finish(r, first, heads);
  }

  /// Copies the key of a slot, and its value where that lies apart, to place `to`.
  void copy(const Layer& layer, int32_t sequence, int64_t slot, int64_t to) const {
    const KvLayerLayout& at = layer.at;
    const std::byte* page = layer.pages.page(sequence, slot);
    std::byte* key = keys_ + to * at.k_row;
    if (at.k_element == 0) {
      std::memcpy(key, page + at.k_offset + at.row(slot) * at.k_row, static_cast<size_t>(at.k_row));
    } else {
      const std::byte* from = page + at.k_offset + slot % kPageTokens * at.k_element;
      for (int64_t d = 0; d < sizes_.k_dim; ++d) {
        std::memcpy(key + d * at.k_element, from + d * kPageTokens * at.k_element,
                    static_cast<size_t>(at.k_element));
      }
    }
    if (sizes_.v_row == 0) return;
    std::memcpy(values_ + to * at.v_row, page + at.v_offset + at.row(slot) * at.v_row,
                static_cast<size_t>(at.v_row));
  }

  /// Takes the keys and values that were copied into the softmaxes.
  void meet(int64_t heads, int32_t count) const {
    Visible visible[kMostHeads];
    std::fill_n(visible, heads, Visible{0, count});
    const CacheRows keys{call_.kv.k_type, false, keys_, sizes_.k_row, sizes_.k_dim, nullptr};
    const bool apart = sizes_.v_row > 0;
    const CacheRows values{call_.kv.v_type,         false,
                           apart ? values_ : keys_, apart ? sizes_.v_row : sizes_.k_row,
                           slots_.shape.v_dim,      nullptr};
    ops_.scores(queries_, heads, keys, visible, visible[0], slice_, scores_);
    ops_.soften(scores_, heads, visible, 0.0f, states_, mixes_, sizes_.v_pad);
    ops_.mix(scores_, heads, values, visible, visible[0], slice_, mixes_, sizes_.v_pad);
  }

  void finish(int64_t r, int64_t first, int64_t heads) const {
    const TensorRef& sinks = call_.inputs[3];
    for (int64_t h = 0; h < heads; ++h) {
      const SoftmaxState& s = states_[h];
      float factor = 1.0f / s.sum;
      if (sinks.data != nullptr) {
        const float sink = sinks.row<float>(0, 0)[first + h];
        const float best = std::max(s.best, sink);
        const auto keep = static_cast<float>(portable::exp(s.best - best));
        factor = keep / (s.sum * keep + static_cast<float>(portable::exp(sink - best)));
      }
      call_.vec().scale_mul(call_.outputs[0].row<float>(first + h, r), mixes_ + h * sizes_.v_pad,
                            nullptr, factor, slots_.shape.v_dim);
    }
  }

  const CpuCall& call_;
  const op::PooledAttention& p_;
  const Layer slots_, blocks_;
  const AttentionOps& ops_;
  const TensorRef& q_;
  const Sizes sizes_;
  std::byte *keys_, *values_;
  float *queries_, *scores_, *mixes_, *slice_;
  SoftmaxState* states_;
};

int64_t scratch(const NodeView& node, const CpuContext& context) {
  const auto layer = static_cast<size_t>(std::get<op::PooledAttention>(node.node.params).kv_layer);
  const KvGeometry& kv = node.graph.kv();
  const KvLayout layout = canonical_kv_layout(kv);
  const Sizes sizes(kv.layers[layer], layout.layers[layer], node.input(0)->desc.shape[1]);
  return sizes.thread_bytes() * context.threads();
}

void run(const CpuCall& call) { PooledAttention(call).run(); }

}  // namespace

const CpuOp& pooled_attention_cpu() {
  static const CpuOp op{OpId::PooledAttention, Sharing::whole, reads_cache, scratch, run};
  return op;
}

}  // namespace infer::cpu
