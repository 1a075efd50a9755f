#include "engine/model/blocks.h"

#include <array>
#include <string>

namespace infer {
namespace {

/// q, k and v [n, 1, rows] from one projection or three.
std::array<ValueId, 3> project_qkv(ModelBuilder& m, ValueId x, const AttentionBlock& b) {
  const std::array<int64_t, 3> widths{b.heads * b.head_dim, b.kv_heads * b.head_dim,
                                      b.kv_heads * b.value_dim};
  const std::string fused = block_name(b.layer, "attn_qkv");
  if (m.has(fused + ".weight")) {
    const ValueId all = m.linear(x, fused, widths[0] + widths[1] + widths[2]);
    return {m.g.slice(all, 0, widths[0]), m.g.slice(all, widths[0], widths[1]),
            m.g.slice(all, widths[0] + widths[1], widths[2])};
  }
  return {m.linear(x, block_name(b.layer, "attn_q"), widths[0]),
          m.linear(x, block_name(b.layer, "attn_k"), widths[1]),
          m.linear(x, block_name(b.layer, "attn_v"), widths[2])};
}

}  // namespace

ValueId attention_block(ModelBuilder& m, ValueId x, const AttentionBlock& b) {
  const int64_t embedding = m.g.value(x).desc.shape[0];
  const std::string q_norm = block_name(b.layer, "attn_q_norm.weight");
  const std::string k_norm = block_name(b.layer, "attn_k_norm.weight");
  auto [q, k, v] = project_qkv(m, x, b);
  if (b.qk_norm == AttentionBlock::QkNorm::whole) {
    q = m.rms_norm(q, q_norm, b.eps);
    k = m.rms_norm(k, k_norm, b.eps);
  }
  q = m.g.split_heads(q, b.heads);     // [head_dim, heads, rows]
  k = m.g.split_heads(k, b.kv_heads);  // [head_dim, kv_heads, rows]
  v = m.g.split_heads(v, b.kv_heads);  // [value_dim, kv_heads, rows]
  if (b.qk_norm == AttentionBlock::QkNorm::per_head) {
    q = m.rms_norm(q, q_norm, b.eps);
    k = m.rms_norm(k, k_norm, b.eps);
  }
  if (b.rotate) {
    q = m.rope(q, b.style, b.rope);
    k = m.rope(k, b.style, b.rope);
  }
  const ValueId sinks = m.optional_weight(block_name(b.layer, "attn_sinks.weight"), {b.heads});
  const op::Attention params{static_cast<int32_t>(b.layer), b.scale, b.softcap, b.window};
  const ValueId mixed = m.attention(q, k, v, params, sinks);
  return m.linear(mixed, block_name(b.layer, "attn_output"), embedding);
}

ValueId feed_forward_block(ModelBuilder& m, ValueId x, int64_t layer, int64_t width,
                           const op::Glu& glu, const char* suffix) {
  const auto name = [&](const char* part) { return block_name(layer, part) + suffix; };
  const int64_t embedding = m.g.value(x).desc.shape[0];
  ValueId gate = kNoValue;
  ValueId up = kNoValue;
  if (m.has(name("ffn_gate") + ".weight")) {
    gate = m.linear(x, name("ffn_gate"), width);
    up = m.linear(x, name("ffn_up"), width);
  } else {
    const ValueId both = m.linear(x, name("ffn_up"), 2 * width);
    gate = m.g.slice(both, 0, width);
    up = m.g.slice(both, width, width);
  }
  return m.linear(m.g.add(glu, {gate, up}), name("ffn_down"), embedding);
}

ValueId experts_block(ModelBuilder& m, ValueId x, int64_t layer, const ExpertsBlock& b,
                      const op::Glu& glu) {
  const auto name = [&](const char* part) { return block_name(layer, part); };
  const int64_t embedding = m.g.value(x).desc.shape[0];
  const ValueId logits = m.linear(x, name("ffn_gate_inp"), b.experts);
  const ValueId bias = m.optional_weight(name("exp_probs_b.bias"), {b.experts});
  const std::vector<ValueId> routed = m.g.add_all(b.route, {logits, bias});
  if (routed.size() != 2) return kNoValue;
  m.g.set_unit({UnitKind::experts, static_cast<int32_t>(layer)});
  const auto linear = [&](ValueId in, const char* part, int64_t n) {
    return m.expert_linear(in, routed[0], name(part), n, b.experts);
  };
  const ValueId gate = linear(x, "ffn_gate_exps", b.width);
  const ValueId up = linear(x, "ffn_up_exps", b.width);
  const ValueId down = linear(m.g.add(glu, {gate, up}), "ffn_down_exps", embedding);
  const ValueId mixed = m.g.add(op::MoeCombine{}, {down, routed[1]});
  m.g.set_unit({UnitKind::feed_forward, static_cast<int32_t>(layer)});
  if (b.shared_width == 0) return mixed;
  return m.add(mixed, feed_forward_block(m, x, layer, b.shared_width, glu, "_shexp"));
}

}  // namespace infer
