// Attention among the rows of a text, without a cache: attention.cpp says more. A unit of work is a
// tile of rows of one text with query heads that share a kv head. Keys are visited in pages of 64
// from the begin of the text, whatever the tile is, so that tiles, threads and other texts change
// no bit.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "backends/cpu/parallel.h"
#include "engine/core/portable_math.h"
#include "engine/graph/alibi.h"

namespace infer::cpu {
namespace {

constexpr int64_t kTileQueries = 64;  ///< rows × heads of a unit

/// How the query heads are spread over units, and the sizes of a thread's scratch.
struct Sizes {
  int64_t group, blocks, heads;  ///< heads of a kv head, units they make, and the heads of a unit
  int64_t k_dim, v_dim, v_pad;
  int64_t rows, queries;  ///< of a unit at most

  Sizes(const TensorDesc& q, const TensorDesc& k, const TensorDesc& v)
      : group(q.shape[1] / k.shape[1]),
        blocks(div_ceil(group, kTileQueries)),
        heads(div_ceil(group, blocks)),
        k_dim(q.shape[0]),
        v_dim(v.shape[0]),
        v_pad(round_up<int64_t>(v_dim, kAttentionPad)),
        rows(std::max<int64_t>(1, kTileQueries / heads)),
        queries(rows * heads) {}

  int64_t thread_bytes() const {
    const int64_t floats =
        queries * (k_dim + kPageTokens + v_pad + 2) + kAttentionSlice * kPageTokens;
    return round_up<int64_t>(floats * int64_t{sizeof(float)}, 64);
  }
};

class TextAttention {
 public:
  explicit TextAttention(const CpuCall& call)
      : call_(call),
        p_(std::get<op::TextAttention>(call.params)),
        ops_(*call.vec().attention),
        q_(call.inputs[0]),
        k_(call.inputs[1]),
        v_(call.inputs[2]),
        sizes_(q_.desc, k_.desc, v_.desc) {
    float* scratch = reinterpret_cast<float*>(call.scratch + call.thread * sizes_.thread_bytes());
    const auto take = [&](int64_t floats) { return std::exchange(scratch, scratch + floats); };
    queries_ = take(sizes_.queries * sizes_.k_dim);
    scores_ = take(sizes_.queries * kPageTokens);
    slice_ = take(kAttentionSlice * kPageTokens);
    states_ = reinterpret_cast<SoftmaxState*>(take(2 * sizes_.queries));
    mixes_ = take(sizes_.queries * sizes_.v_pad);
  }

  void run() const {
    const int64_t rows = q_.desc.shape[2];
    const int64_t units = k_.desc.shape[1] * sizes_.blocks;
    int64_t item = 0;
    for (int64_t first = 0; first < rows;) {
      const int64_t last = std::min({end_of(first), first + sizes_.rows, rows});
      for (int64_t unit = 0; unit < units; ++unit) {
        if (item++ % call_.threads() == call_.thread) compute(first, last, unit);
      }
      first = last;
    }
  }

 private:
  int64_t begin_of(int64_t row) const { return *call_.inputs[3].row<int32_t>(0, row); }
  int64_t end_of(int64_t row) const { return *call_.inputs[4].row<int32_t>(0, row); }
  int64_t kv_head(int64_t unit) const { return unit / sizes_.blocks; }
  /// The g-th query head of a unit; the last block of a group may have fewer, and repeats its last.
  int64_t head(int64_t unit, int64_t g) const {
    const int64_t in_group = unit % sizes_.blocks * sizes_.heads + g;
    return kv_head(unit) * sizes_.group + std::min(in_group, sizes_.group - 1);
  }

  /// The rows that a row sees: [first, second).
  std::pair<int64_t, int64_t> seen(int64_t row) const {
    const int64_t begin = begin_of(row);
    const int64_t end = end_of(row);
    int64_t first = p_.before < 0 ? begin : std::max(begin, row - p_.before);
    if (p_.chunk > 0) first = std::max(first, begin + (row - begin) / p_.chunk * p_.chunk);
    return {first, p_.after < 0 ? end : std::min(end, row + p_.after + 1)};
  }

  /// Rows [first, last) of one text.
  void compute(int64_t first, int64_t last, int64_t unit) const {
    const int64_t count = (last - first) * sizes_.heads;
    float* query = queries_;
    for (int64_t r = first; r < last; ++r) {
      for (int64_t g = 0; g < sizes_.heads; ++g, query += sizes_.k_dim) {
        call_.vec().scale_mul(query, q_.row<float>(head(unit, g), r), nullptr, p_.scale,
                              sizes_.k_dim);
      }
    }
    std::fill_n(states_, count, SoftmaxState{-std::numeric_limits<float>::infinity(), 0.0f});
    std::fill_n(mixes_, count * sizes_.v_pad, 0.0f);
    const int64_t begin = begin_of(first);
    const int64_t from = seen(first).first;
    const int64_t to = seen(last - 1).second;
    for (int64_t page = begin + (from - begin) / kPageTokens * kPageTokens; page < to;
         page += kPageTokens) {
      visit(first, last, unit, page);
    }
    finish(first, last, unit);
  }

  void visit(int64_t first, int64_t last, int64_t unit, int64_t page) const {
    Visible visible[kTileQueries];
    Visible any{kPageTokens, 0};
    Visible* next = visible;
    for (int64_t r = first; r < last; ++r) {
      const auto [from, to] = seen(r);
      const auto in_page = [&](int64_t row) {
        return static_cast<int32_t>(std::clamp<int64_t>(row - page, 0, kPageTokens));
      };
      const Visible part{in_page(from), in_page(to)};
      next = std::fill_n(next, sizes_.heads, part);
      if (!part.empty()) any = {std::min(any.begin, part.begin), std::max(any.end, part.end)};
    }
    if (any.empty()) return;
    const int64_t count = next - visible;
    const auto rows = [&](const TensorRef& x) {
      return CacheRows{DType::f32,
                       false,
                       reinterpret_cast<const std::byte*>(x.row<float>(kv_head(unit), page)),
                       x.desc.stride[2],
                       x.desc.shape[0],
                       nullptr};
    };
    ops_.scores(queries_, count, rows(k_), visible, any, slice_, scores_);
    if (p_.alibi > 0) add_biases(first, last, unit, page, any);
    ops_.soften(scores_, count, visible, p_.softcap, states_, mixes_, sizes_.v_pad);
    ops_.mix(scores_, count, rows(v_), visible, any, slice_, mixes_, sizes_.v_pad);
  }

  void add_biases(int64_t first, int64_t last, int64_t unit, int64_t page, Visible any) const {
    float* scores = scores_;
    for (int64_t r = first; r < last; ++r) {
      for (int64_t g = 0; g < sizes_.heads; ++g, scores += kPageTokens) {
        const float slope =
            p_.alibi_factor * alibi_slope(head(unit, g), q_.desc.shape[1], p_.alibi);
        for (int32_t j = any.begin; j < any.end; ++j) {
          scores[j] -= slope * static_cast<float>(std::abs(r - page - j));
        }
      }
    }
  }

  void finish(int64_t first, int64_t last, int64_t unit) const {
    const TensorRef& sinks = call_.inputs[5];
    const SoftmaxState* state = states_;
    const float* mix = mixes_;
    for (int64_t r = first; r < last; ++r) {
      for (int64_t g = 0; g < sizes_.heads; ++g, ++state, mix += sizes_.v_pad) {
        const int64_t h = head(unit, g);
        float factor = 1.0f / state->sum;
        if (sinks.data != nullptr) {
          const float sink = sinks.row<float>(0, 0)[h];
          const float best = std::max(state->best, sink);
          const auto keep = static_cast<float>(portable::exp(state->best - best));
          factor = keep / (state->sum * keep + static_cast<float>(portable::exp(sink - best)));
        }
        call_.vec().scale_mul(call_.outputs[0].row<float>(h, r), mix, nullptr, factor,
                              sizes_.v_dim);
      }
    }
  }

  const CpuCall& call_;
  const op::TextAttention& p_;
  const AttentionOps& ops_;
  const TensorRef& q_;
  const TensorRef& k_;
  const TensorRef& v_;
  const Sizes sizes_;
  // This thread's scratch.
  float *queries_, *scores_, *slice_;
  SoftmaxState* states_;
  float* mixes_;
};

int64_t scratch(const NodeView& node, const CpuContext& context) {
  const Sizes sizes(node.input(0)->desc, node.input(1)->desc, node.input(2)->desc);
  return sizes.thread_bytes() * context.threads();
}

void run(const CpuCall& call) { TextAttention(call).run(); }

}  // namespace

const CpuOp& text_attention_cpu() {
  static const CpuOp op{OpId::TextAttention, Sharing::whole, always_supported, scratch, run};
  return op;
}

}  // namespace infer::cpu
