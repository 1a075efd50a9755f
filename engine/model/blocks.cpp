#include "engine/model/blocks.h"

#include <cmath>
#include <limits>
#include <string>

#include "engine/core/portable_math.h"

namespace infer {
namespace {

/// glu(gate, up), with a limit of min(SiLU(gate), limit) and of up within ±limit. SiLU grows where
/// it is above 0, so that holding its argument below the one that gives the limit is the same.
/// `before`: the gate itself is held below the limit.
ValueId gated(ModelBuilder& m, const op::Glu& glu, ValueId gate, ValueId up, float limit,
              bool before = false) {
  if (limit <= 0) return m.g.add(glu, {gate, up});
  double most = limit;
  for (int i = 0; i < 60 && !before; ++i) {  // Newton's method
    const double s = portable::sigmoid(most);
    most += (limit - most * s) / (s * (1 + most * (1 - s)));
  }
  constexpr float kUnbounded = -std::numeric_limits<float>::infinity();
  gate = m.g.add(op::Scale{1.0f, kUnbounded, static_cast<float>(most)}, {gate});
  return m.g.add(glu, {gate, m.g.add(op::Scale{1.0f, -limit, limit}, {up})});
}

}  // namespace

ValueId gate_heads(ModelBuilder& m, ValueId x, ValueId gate, int64_t heads,
                   op::Glu::Kind activation) {
  const int64_t width = m.g.value(x).desc.shape[0];
  if (m.g.value(gate).desc.shape[0] == width) {
    gate = m.g.split_heads(gate, heads);
  } else {
    const ValueId ones = m.g.add(op::Scale{0.0f, 1.0f, 1.0f}, {m.g.slice(x, 0, width / heads)});
    gate = m.g.add(op::MoeSpread{}, {ones, gate});  // [value_dim, heads, rows]
  }
  return m.g.merge_heads(m.g.add(op::Glu{activation}, {gate, m.g.split_heads(x, heads)}));
}

std::array<ValueId, 3> project_qkv(ModelBuilder& m, ValueId x, const AttentionBlock& b) {
  const int64_t parts = b.gate == AttentionBlock::Gate::with_queries ? 2 : 1;
  const std::array<int64_t, 3> widths{parts * b.heads * b.head_dim, b.kv_heads * b.head_dim,
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

namespace {

/// x [dim, heads, rows], each head of which has weights of its own.
ValueId norm_each_head(ModelBuilder& m, ValueId x, const std::string& name, float eps) {
  const auto& shape = m.g.value(x).desc.shape;
  const int64_t heads = shape[1];
  const ValueId weight = m.weight(name + ".weight", {shape[0], heads});
  x = m.g.merge_heads(m.g.add(op::RmsNorm{eps}, {x, kNoValue}));
  return m.g.split_heads(m.g.add(op::Multiply{}, {x, m.g.merge_heads(weight)}), heads);
}

}  // namespace

ValueId attention_block(ModelBuilder& m, ValueId x, const AttentionBlock& b, ValueId chosen) {
  const int64_t embedding = b.width > 0 ? b.width : m.g.value(x).desc.shape[0];
  const std::string q_norm = block_name(b.layer, "attn_q_norm");
  const std::string k_norm = block_name(b.layer, "attn_k_norm");
  auto [q, k, v] = project_qkv(m, x, b);
  if (b.clamp > 0) {
    for (ValueId* part : {&q, &k, &v}) {
      *part = m.g.add(op::Scale{1.0f, -b.clamp, b.clamp}, {*part});
    }
  }
  if (b.qk_norm == AttentionBlock::QkNorm::whole) {
    q = m.rms_norm(q, q_norm + ".weight", b.eps);
    k = m.rms_norm(k, k_norm + ".weight", b.eps);
  } else if (b.qk_norm == AttentionBlock::QkNorm::whole_layer) {
    q = m.layer_norm(q, q_norm, b.eps);
    k = m.layer_norm(k, k_norm, b.eps);
  }
  q = m.g.split_heads(q, b.heads);  // [head_dim, heads, rows]
  ValueId gate = kNoValue;
  if (b.gate == AttentionBlock::Gate::with_queries) {
    gate = m.g.slice(q, b.head_dim, b.head_dim);
    q = m.g.slice(q, 0, b.head_dim);
  } else if (b.gate == AttentionBlock::Gate::apart) {
    gate = m.linear(x, block_name(b.layer, "attn_gate"), b.heads * b.value_dim);
    gate = m.g.split_heads(gate, b.heads);
  } else if (b.gate == AttentionBlock::Gate::of_heads) {
    gate = m.linear(x, block_name(b.layer, "attn_gate"), b.heads);
  }
  k = m.g.split_heads(k, b.kv_heads);  // [head_dim, kv_heads, rows]
  v = m.g.split_heads(v, b.kv_heads);  // [value_dim, kv_heads, rows]
  const auto norm = [&](ValueId x, const std::string& name) {
    switch (b.qk_norm) {
      case AttentionBlock::QkNorm::plain: return m.g.add(op::RmsNorm{b.eps}, {x, kNoValue});
      case AttentionBlock::QkNorm::per_head: return m.rms_norm(x, name + ".weight", b.eps);
      case AttentionBlock::QkNorm::each_head: return norm_each_head(m, x, name, b.eps);
      case AttentionBlock::QkNorm::layer: return m.layer_norm(x, name, b.eps, true);
      default: return x;
    }
  };
  if (!b.norm_last) {
    q = norm(q, q_norm);
    k = norm(k, k_norm);
  }
  if (b.rotate || b.q_rope >= 0) q = m.rope(q, b.style, b.q_rope >= 0 ? b.q_rope : b.rope);
  if (b.rotate) k = m.rope(k, b.style, b.rope);
  if (b.norm_last) {
    q = norm(q, q_norm);
    k = norm(k, k_norm);
  }
  const ValueId sinks = m.optional_weight(block_name(b.layer, "attn_sinks.weight"), {b.heads});
  const op::Attention params{b.cache,        b.scale,          b.softcap, b.window,      b.chunked,
                             b.chosen_block, b.chosen_by_head, b.alibi,   b.alibi_factor};
  ValueId mixed = m.attention(q, k, v, params, sinks, chosen);
  if (b.gate == AttentionBlock::Gate::of_heads) {
    mixed = gate_heads(m, mixed, gate, b.heads, b.gate_activation);
  } else if (gate != kNoValue) {
    const op::Glu glu{b.gate_activation};
    mixed = m.g.merge_heads(m.g.add(glu, {gate, m.g.split_heads(mixed, b.heads)}));
  }
  if (b.sub_norm) {
    mixed = m.rms_norm(mixed, block_name(b.layer, "attn_sub_norm.weight"), b.eps);
  }
  if (b.output_scale != 1.0f) mixed = m.g.add(op::Scale{b.output_scale}, {mixed});
  return m.linear(mixed, block_name(b.layer, "attn_output"), embedding);
}

ValueId gelu_block(ModelBuilder& m, ValueId x, int64_t layer, int64_t width, op::Gelu::Kind kind) {
  const int64_t embedding = m.g.value(x).desc.shape[0];
  const ValueId up = m.linear(x, block_name(layer, "ffn_up"), width);
  return m.linear(m.g.add(op::Gelu{kind}, {up}), block_name(layer, "ffn_down"), embedding);
}

ValueId squared_relu_block(ModelBuilder& m, ValueId x, int64_t layer, int64_t width) {
  const int64_t embedding = m.g.value(x).desc.shape[0];
  const ValueId up = m.linear(x, block_name(layer, "ffn_up"), width);
  // max(up, 0)·up is the square of ReLU.
  const ValueId squared = m.g.add(op::Glu{op::Glu::Kind::relu}, {up, up});
  return m.linear(squared, block_name(layer, "ffn_down"), embedding);
}

ValueId feed_forward_block(ModelBuilder& m, ValueId x, int64_t layer, int64_t width,
                           const op::Glu& glu, const char* suffix, float limit, bool limits_gate) {
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
  return m.linear(gated(m, glu, gate, up, limit, limits_gate), name("ffn_down"), embedding);
}

ValueId routed_experts(ModelBuilder& m, ValueId x, ValueId logits, int64_t layer,
                       const ExpertsBlock& b, const op::Glu& glu) {
  const auto name = [&](const char* part) { return block_name(layer, part); };
  const int64_t embedding = m.g.value(x).desc.shape[0];
  // Files of Hunyuan V3 leave the ending out.
  const char* const named = m.has(name("exp_probs_b")) ? "exp_probs_b" : "exp_probs_b.bias";
  // A table of which experts each token takes leaves nothing for a bias to choose.
  const ValueId table =
      m.optional_weight(name("ffn_gate_tid2eid.weight"), {b.route.used, m.vocabulary()});
  const ValueId tokens = table == kNoValue ? kNoValue : m.text_tokens();
  const ValueId bias = table == kNoValue ? m.optional_weight(name(named), {b.experts}) : kNoValue;
  const std::vector<ValueId> routed = m.g.add_all(b.route, {logits, bias, table, tokens});
  if (routed.size() != 2) return kNoValue;
  m.g.set_unit({UnitKind::experts, static_cast<int32_t>(layer)});
  const auto linear = [&](ValueId in, const char* part, int64_t n) {
    return m.expert_linear(in, routed[0], name(part), n, b.experts);
  };
  if (b.weights_input) x = m.g.add(op::MoeSpread{}, {x, routed[1]});
  ValueId gate = kNoValue;
  ValueId up = kNoValue;
  if (m.has(name("ffn_gate_up_exps.weight"))) {
    const ValueId both = linear(x, "ffn_gate_up_exps", 2 * b.width);
    gate = m.g.slice(both, 0, b.width);
    up = m.g.slice(both, b.width, b.width);
  } else {
    gate = linear(x, "ffn_gate_exps", b.width);
    up = linear(x, "ffn_up_exps", b.width);
  }
  ValueId mixed =
      linear(gated(m, glu, gate, up, b.limit, b.limits_gate), "ffn_down_exps", embedding);
  if (!b.weights_input) mixed = m.g.add(op::MoeCombine{}, {mixed, routed[1]});
  m.g.set_unit({UnitKind::feed_forward, static_cast<int32_t>(layer)});
  return mixed;
}

ValueId experts_block(ModelBuilder& m, ValueId x, int64_t layer, const ExpertsBlock& b,
                      const op::Glu& glu) {
  const ValueId logits = m.linear(x, block_name(layer, "ffn_gate_inp"), b.experts);
  const ValueId mixed = routed_experts(m, x, logits, layer, b, glu);
  if (b.shared_width == 0 || mixed == kNoValue) return mixed;
  ValueId shared =
      feed_forward_block(m, x, layer, b.shared_width, glu, "_shexp", b.shared_limit, b.limits_gate);
  const std::string gate = block_name(layer, "ffn_gate_inp_shexp.weight");
  if (m.has(gate)) {
    const ValueId opening = m.product(x, gate, 1);
    op::MoeRoute only;  // one expert, which is always chosen
    only.gating = op::MoeRoute::Gating::sigmoid;
    only.used = 1;
    const std::vector<ValueId> routed = m.g.add_all(only, {opening, kNoValue, kNoValue, kNoValue});
    if (routed.size() != 2) return kNoValue;
    shared = m.g.add(op::MoeCombine{}, {shared, routed[1]});
  }
  return m.add(mixed, shared);
}

}  // namespace infer
