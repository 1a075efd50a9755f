#include "engine/model/blocks.h"

namespace infer {

ValueId attention_block(ModelBuilder& m, ValueId x, const AttentionBlock& b) {
  const auto name = [&](const char* part) { return block_name(b.layer, part); };
  ValueId q = m.linear(x, name("attn_q"), b.heads * b.head_dim);
  ValueId k = m.linear(x, name("attn_k"), b.kv_heads * b.head_dim);
  const ValueId v = m.linear(x, name("attn_v"), b.kv_heads * b.value_dim);
  q = m.g.split_heads(q, b.heads);     // [head_dim, heads, rows]
  k = m.g.split_heads(k, b.kv_heads);  // [head_dim, kv_heads, rows]
  if (b.head_norm) {
    q = m.rms_norm(q, name("attn_q_norm.weight"), b.eps);
    k = m.rms_norm(k, name("attn_k_norm.weight"), b.eps);
  }
  if (b.rotate) {
    q = m.rope(q, b.style, b.rope);
    k = m.rope(k, b.style, b.rope);
  }
  const ValueId sinks = m.optional_weight(name("attn_sinks.weight"), {b.heads});
  const op::Attention params{static_cast<int32_t>(b.layer), b.scale, b.softcap, b.window};
  const ValueId mixed = m.attention(q, k, m.g.split_heads(v, b.kv_heads), params, sinks);
  return m.linear(mixed, name("attn_output"), b.embedding);
}

ValueId feed_forward_block(ModelBuilder& m, ValueId x, int64_t layer, int64_t width,
                           const op::Glu& glu) {
  const int64_t embedding = m.g.value(x).desc.shape[0];
  const ValueId gate = m.linear(x, block_name(layer, "ffn_gate"), width);
  const ValueId up = m.linear(x, block_name(layer, "ffn_up"), width);
  return m.linear(m.g.add(glu, {gate, up}), block_name(layer, "ffn_down"), embedding);
}

ValueId experts_block(ModelBuilder& m, ValueId x, const ExpertsBlock& b) {
  const auto name = [&](const char* part) { return block_name(b.layer, part); };
  const int64_t embedding = m.g.value(x).desc.shape[0];
  const ValueId logits = m.linear(x, name("ffn_gate_inp"), b.experts);
  const ValueId bias = m.optional_weight(name("exp_probs_b.bias"), {b.experts});
  const std::vector<ValueId> routed = m.g.add_all(b.route, {logits, bias});
  if (routed.size() != 2) return kNoValue;
  const auto product = [&](ValueId in, const char* part, int64_t k, int64_t n) {
    const ValueId w = m.weight(name(part) + ".weight", {k, n, b.experts});
    const ValueId part_bias = m.optional_weight(name(part) + ".bias", {n, b.experts});
    return m.g.add(op::MoeMatmul{}, {in, w, routed[0], part_bias});
  };
  const ValueId gate = product(x, "ffn_gate_exps", embedding, b.width);
  const ValueId up = product(x, "ffn_up_exps", embedding, b.width);
  const ValueId down = product(m.g.add(b.glu, {gate, up}), "ffn_down_exps", b.width, embedding);
  return m.g.add(op::MoeCombine{}, {down, routed[1]});
}

}  // namespace infer
