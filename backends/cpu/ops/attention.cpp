// Attention over pages of 64 keys with a running softmax (Milakov & Gimelshein 2018;
// FlashAttention, Dao et al. 2022). A tile of rows of one sequence and one kv head is a unit of
// work: each page is converted to float32 once for all rows and query heads of the tile. A row
// visits its pages in order and by itself, so tiles and threads change no bit.
#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cpu/parallel.h"
#include "backends/cpu/product.h"

namespace infer::cpu {
namespace {

/// Rows of a tile, so that rows × heads of a group stay near 64.
int64_t tile_rows(int64_t group) { return std::max<int64_t>(1, 64 / group); }

/// A thread's scratch in floats: keys, values of a page, then per (row, head) sum, maximum, mix.
struct Layout {
  int64_t values, states, state, bytes;

  Layout(const KvLayerShape& shape, int64_t group) {
    values = int64_t{kPageTokens} * shape.k_dim;
    states = values + int64_t{kPageTokens} * shape.v_dim;
    state = 2 + shape.v_dim;
    bytes = round_up<int64_t>((states + tile_rows(group) * group * state) * 4, 64);
  }
};

struct State {
  float* sum;
  float* best;
  float* mix;
};

const KvLayerShape& layer_shape(const KvGeometry& kv, const OpParams& params) {
  return kv.layers[static_cast<size_t>(std::get<op::Attention>(params).kv_layer)];
}

int64_t scratch(const NodeView& node, const CpuContext& context) {
  const KvLayerShape& shape = layer_shape(node.graph.kv(), node.node.params);
  const Layout layout(shape, node.input(0)->desc.shape[1] / shape.heads);
  return layout.bytes * context.threads();
}

/// Takes keys [begin, end) of a page into the running softmax of one query.
void visit(const CpuCall& call, const op::Attention& p, const KvLayerShape& shape, const float* q,
           const float* keys, const float* values, int64_t begin, int64_t end, const State& state) {
  const VecOps& vec = call.vec();
  const int64_t count = end - begin;
  const float* rows[kPageTokens];
  float scores[kPageTokens];
  for (int64_t j = 0; j < count; ++j) rows[j] = keys + (begin + j) * shape.k_dim;
  vec.dot_columns(q, shape.k_dim, rows, scores, count);
  for (int64_t j = 0; j < count; ++j) {
    scores[j] *= p.scale;
    if (p.softcap > 0) scores[j] = p.softcap * std::tanh(scores[j] / p.softcap);
  }
  const float best = std::max(*state.best, vec.max(scores, count));
  const float keep = std::exp(*state.best - best);
  *state.sum = *state.sum * keep + vec.exp_sum(scores, best, count);
  *state.best = best;
  if (keep != 1.0f) vec.scale_mul(state.mix, state.mix, nullptr, keep, shape.v_dim);
  for (int64_t j = 0; j < count; ++j) {
    vec.axpy(state.mix, scores[j], values + (begin + j) * shape.v_dim, shape.v_dim);
  }
}

/// Rows [first, last) of one sequence with one kv head.
void attend(const CpuCall& call, int64_t first, int64_t last, int64_t kv_head) {
  const auto& p = std::get<op::Attention>(call.params);
  const KvLayerShape& shape = layer_shape(call.kv, call.params);
  const KvLayerLayout& at = call.kv_layout.layers[static_cast<size_t>(p.kv_layer)];
  const TensorRef& q = call.inputs[0];
  const TensorRef& sinks = call.inputs[3];
  const int64_t group = q.desc.shape[1] / shape.heads;
  const Layout layout(shape, group);
  auto* keys = reinterpret_cast<float*>(call.scratch + call.thread * layout.bytes);
  float* values = keys + layout.values;
  const auto state = [&](int64_t r, int64_t g) {
    float* s = keys + layout.states + ((r - first) * group + g) * layout.state;
    return State{s, s + 1, s + 2};
  };
  const auto slot_of = [&](int64_t r) { return int64_t{*call.inputs[1].row<int32_t>(0, r)}; };
  const auto begin_of = [&](int64_t r) {
    return p.window > 0 ? std::max<int64_t>(0, slot_of(r) - p.window + 1) : 0;
  };

  int64_t begin = std::numeric_limits<int64_t>::max();
  int64_t end = 0;
  for (int64_t r = first; r < last; ++r) {
    begin = std::min(begin, begin_of(r));
    end = std::max(end, slot_of(r) + 1);
    for (int64_t g = 0; g < group; ++g) {
      const State s = state(r, g);
      *s.sum = 0;
      *s.best = -std::numeric_limits<float>::infinity();
      std::fill_n(s.mix, shape.v_dim, 0.0f);
    }
  }
  const int32_t sequence = *call.inputs[2].row<int32_t>(0, first);
  for (int64_t start = begin / kPageTokens * kPageTokens; start < end; start += kPageTokens) {
    const std::byte* page = call.pages.page(sequence, start, call.kv_layout.page_bytes);
    const int64_t from = std::max<int64_t>(0, begin - start);
    const int64_t to = std::min<int64_t>(kPageTokens, end - start);
    const int64_t token = kv_head * kPageTokens + from;
    decode_row(call.vec(), call.kv.k_type, page + at.k_offset + token * at.k_row,
               keys + from * shape.k_dim, (to - from) * shape.k_dim);
    if (at.v_offset == at.k_offset) {  // values are the beginnings of the keys
      for (int64_t s = from; s < to; ++s) {
        std::copy_n(keys + s * shape.k_dim, shape.v_dim, values + s * shape.v_dim);
      }
    } else {
      decode_row(call.vec(), call.kv.v_type, page + at.v_offset + token * at.v_row,
                 values + from * shape.v_dim, (to - from) * shape.v_dim);
    }
    for (int64_t r = first; r < last; ++r) {
      const int64_t row_from = std::max<int64_t>(0, begin_of(r) - start);
      const int64_t row_to = std::min<int64_t>(kPageTokens, slot_of(r) + 1 - start);
      if (row_from >= row_to) continue;
      for (int64_t g = 0; g < group; ++g) {
        visit(call, p, shape, q.row<float>(kv_head * group + g, r), keys, values, row_from, row_to,
              state(r, g));
      }
    }
  }
  for (int64_t r = first; r < last; ++r) {
    for (int64_t g = 0; g < group; ++g) {
      const State s = state(r, g);
      const int64_t head = kv_head * group + g;
      float factor = 1.0f / *s.sum;
      if (sinks.data != nullptr) {
        const float sink = sinks.row<float>(0, 0)[head];
        const float best = std::max(*s.best, sink);
        const float keep = std::exp(*s.best - best);
        factor = keep / (*s.sum * keep + std::exp(sink - best));
      }
      call.vec().scale_mul(call.outputs[0].row<float>(head, r), s.mix, nullptr, factor,
                           shape.v_dim);
    }
  }
}

void run(const CpuCall& call) {
  const TensorRef& q = call.inputs[0];
  const int64_t heads = layer_shape(call.kv, call.params).heads;
  const int64_t most = tile_rows(q.desc.shape[1] / heads);
  const auto sequence_of = [&](int64_t r) { return *call.inputs[2].row<int32_t>(0, r); };
  int64_t item = 0;
  for (int64_t first = 0; first < q.desc.shape[2];) {
    int64_t last = first + 1;
    while (last < q.desc.shape[2] && last - first < most &&
           sequence_of(last) == sequence_of(first)) {
      ++last;
    }
    for (int64_t h = 0; h < heads; ++h, ++item) {
      if (item % call.threads() == call.thread) attend(call, first, last, h);
    }
    first = last;
  }
}

}  // namespace

const CpuOp& attention_cpu() {
  static const CpuOp op{OpId::Attention, Sharing::whole, always_supported, scratch, run};
  return op;
}

}  // namespace infer::cpu
