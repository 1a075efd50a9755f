#include "engine/model/latent_attention.h"

#include <cmath>
#include <tuple>

namespace infer {
namespace {

constexpr int64_t kMostWidth = int64_t{1} << 20;

}  // namespace

LatentBlock::LatentBlock(HparamReader& r, const DecoderParams& params, int64_t layer)
    : heads(params.heads),
      absorbed(weight_index(r.source(), block_name(layer, "attn_k_b.weight")) >= 0),
      q_latent(r.get_int("attention.q_lora_rank", 0, 0, kMostWidth)),
      latent(r.need_int("attention.kv_lora_rank", 1, kMostWidth)),
      // In files with split projections key_length describes what is cached, and _mla a head.
      key(r.get_int("attention.key_length_mla", params.head_dim, 1, kMostWidth)),
      value(r.get_int("attention.value_length_mla", params.value_dim, 1, kMostWidth)),
      rope(r.get_int("rope.dimension_count", params.head_dim, 0, kMostWidth)),
      nope(key - rope),
      scale(static_cast<float>(1.0 / std::sqrt(static_cast<double>(key)))) {
  if (nope >= 1) return;
  r.set_error(error(StatusCode::bad_file,
                    "{}: expected a head of more than its {} rotated elements, found {}",
                    r.metadata().source(), rope, key));
}

void LatentBlock::set_cache(KvLayerShape& layer) const {
  KvLayerShape shape{static_cast<int32_t>(heads), static_cast<int32_t>(key),
                     static_cast<int32_t>(value)};
  if (absorbed) {
    shape = {1, static_cast<int32_t>(latent + rope), static_cast<int32_t>(latent)};
    shape.v_in_k = true;
  }
  shape.layer = layer.layer;
  layer = shape;
}

void LatentBlock::set_caches(std::vector<KvLayerShape>& layers) const {
  for (KvLayerShape& layer : layers) set_cache(layer);
}

ValueId latent_block(ModelBuilder& m, ValueId x, int64_t layer, const LatentBlock& b, int32_t cache,
                     const SlotIndex* index) {
  const auto name = [&](const char* part) { return block_name(layer, part); };
  const int64_t embedding = m.g.value(x).desc.shape[0];
  ValueId q = kNoValue;
  ValueId chosen = kNoValue;
  if (b.q_latent > 0) {
    q = m.rms_norm(m.linear(x, name("attn_q_a"), b.q_latent), name("attn_q_a_norm.weight"),
                   b.inner_eps);
    if (index != nullptr) chosen = choose_slots(m, x, q, layer, *index);
    q = m.linear(q, name("attn_q_b"), b.heads * b.key);
  } else {
    q = m.linear(x, name("attn_q"), b.heads * b.key);
  }
  q = m.g.split_heads(q, b.heads);  // [nope + rope, heads, rows]
  ValueId q_nope = m.g.slice(q, 0, b.nope);
  if (b.still >= 0) q_nope = m.rope(q_nope, b.style, b.still);

  const ValueId kv = m.linear(x, name("attn_kv_a_mqa"), b.latent + b.rope);
  const ValueId latent =
      m.rms_norm(m.g.slice(kv, 0, b.latent), name("attn_kv_a_norm.weight"), b.inner_eps);
  ValueId q_rope = kNoValue;  // nothing, where no part of a key is shared by all heads
  ValueId k_rope = kNoValue;
  if (b.rope > 0) {
    q_rope = m.g.slice(q, b.nope, b.rope);
    k_rope = m.g.slice(kv, b.latent, b.rope);
    if (const std::string norm = name("attn_k_norm.weight"); m.has(norm)) {
      k_rope = m.rms_norm(k_rope, norm, b.inner_eps);
    }
    if (b.rotate) {
      q_rope = m.rope(q_rope, b.style, b.turned);
      k_rope = m.rope(k_rope, b.style, b.keys_rope);
    }
  }
  const auto join = [&](ValueId first, ValueId second) {
    return second == kNoValue ? first : m.g.add(op::Concat{}, {first, second});
  };

  op::Attention params{cache, b.scale, 0.0f, b.window};
  if (index != nullptr) params.chosen_block = index->block;
  const ValueId sinks = m.optional_weight(name("attn_sinks.weight"), {b.heads});
  ValueId mixed = kNoValue;
  if (b.absorbed) {
    const ValueId k_b = m.weight(name("attn_k_b.weight"), {b.nope, b.latent, b.heads});
    const ValueId v_b = m.weight(name("attn_v_b.weight"), {b.latent, b.value, b.heads});
    q_nope = m.g.add(op::HeadMatmul{}, {q_nope, k_b});  // [latent, heads, rows]
    const ValueId key = join(latent, k_rope);           // [latent + rope, 1, rows]
    mixed =
        m.attention(join(q_nope, q_rope), key, m.g.slice(key, 0, b.latent), params, sinks, chosen);
    mixed = m.g.add(op::HeadMatmul{}, {m.g.split_heads(mixed, b.heads), v_b});
    mixed = m.g.merge_heads(mixed);
  } else {
    const ValueId both =
        m.g.split_heads(m.linear(latent, name("attn_kv_b"), b.heads * (b.nope + b.value)), b.heads);
    const ValueId key = join(m.g.slice(both, 0, b.nope), k_rope);
    mixed = m.attention(join(q_nope, q_rope), key, m.g.slice(both, b.nope, b.value), params, sinks,
                        chosen);
  }
  if (b.gate != AttentionBlock::Gate::none) {
    const bool each = b.gate == AttentionBlock::Gate::of_heads;
    const ValueId gate = m.linear(x, name("attn_gate"), each ? b.heads : b.heads * b.value);
    mixed = gate_heads(m, mixed, gate, b.heads);
  }
  return m.linear(mixed, name("attn_output"), embedding);
}

void map_latent(CheckpointMap& m, bool apart, bool halves) {
  const int64_t latent = m.config.need_int("kv_lora_rank", 1, kMostWidth);
  const int64_t nope = m.config.need_int("qk_nope_head_dim", 1, kMostWidth);
  const int64_t rope = m.config.need_int("qk_rope_head_dim", 0, kMostWidth);
  const int64_t value = m.config.need_int("v_head_dim", 1, kMostWidth);
  if (const int64_t rank = m.config.get_int("q_lora_rank", 0, 0, kMostWidth); rank > 0) {
    m.keys.set_int("attention.q_lora_rank", rank);
  }
  m.keys.set_int("attention.kv_lora_rank", latent);
  m.keys.set_int("rope.dimension_count", rope);  // partial_rotary_factor is of the whole head
  // What is cached, then what a head has.
  if (apart) {
    m.keys.set_int("attention.head_count_kv", 1);
    m.keys.set_int("attention.key_length", latent + rope);
    m.keys.set_int("attention.value_length", latent);
    m.keys.set_int("attention.key_length_mla", nope + rope);
    m.keys.set_int("attention.value_length_mla", value);
  } else {
    m.keys.set_int("attention.key_length", nope + rope);
    m.keys.set_int("attention.value_length", value);
  }
  m.layers({{"self_attn.q_a_proj", "attn_q_a"},
            {"self_attn.q_a_layernorm", "attn_q_a_norm"},
            {"self_attn.kv_a_layernorm", "attn_kv_a_norm"},
            {"self_attn.o_proj", "attn_output"}});
  if (halves) {
    for (int64_t i = 0; i < m.layer_count(); ++i) {
      for (const auto& [from, to, rows, heads] :
           {std::tuple{"q_b_proj", "attn_q_b", nope + rope, m.head_count()},
            {"q_proj", "attn_q", nope + rope, m.head_count()},
            {"kv_a_proj_with_mqa", "attn_kv_a_mqa", latent + rope, int64_t{1}}}) {
        put_turned(m, layer_name(i, "self_attn.") + from, block_name(i, to), rows, heads, rope);
      }
    }
  } else {
    m.layers({{"self_attn.q_b_proj", "attn_q_b"},
              {"self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa"},
              {"self_attn.q_proj", "attn_q"}});
  }
  if (!apart) return m.layers({{"self_attn.kv_b_proj", "attn_kv_b"}});
  for (int64_t i = 0; i < m.layer_count(); ++i) {
    const std::string both_name = layer_name(i, "self_attn.kv_b_proj.weight");
    if (!m.tensors.has(layer_name(i, "self_attn.kv_a_proj_with_mqa.weight"))) continue;
    const TensorView both = m.tensors.view(both_name, {latent, nope + value, m.head_count()});
    m.tensors.put(block_name(i, "attn_k_b.weight"), both.sliced(1, 0, nope).swapped(0, 1));
    m.tensors.put(block_name(i, "attn_v_b.weight"), both.sliced(1, nope, value));
  }
}

}  // namespace infer
