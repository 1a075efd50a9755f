#include "engine/model/vision_block.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace infer {
namespace {

ValueId normed(ModelBuilder& m, ValueId x, const std::string& name, const VisionBlock& block) {
  return block.rms_norms ? m.rms_norm(x, name + ".weight", block.eps)
                         : m.layer_norm(x, name, block.eps);
}

/// x, by elements' factors where the layers have some.
ValueId scaled(ModelBuilder& m, ValueId x, const std::string& name, const VisionBlock& block) {
  if (!block.scaled) return x;
  return m.g.add(op::Multiply{}, {x, m.weight(name, {block.width})});
}

}  // namespace

std::string vision_name(int64_t layer, const char* part) {
  return fmt::format("v.blk.{}.{}", layer, part);
}

VisionBlock read_vision_block(HparamReader& r, ModelInfo& info) {
  VisionBlock block;
  block.width = r.need_int("vision.embedding_length", 4, 1 << 20);
  block.heads = r.need_int("vision.attention.head_count", 1, 1 << 12);
  block.eps = r.epsilon("vision.attention.layer_norm_epsilon");
  if (block.width % block.heads != 0 || block.width / block.heads % 4 != 0) {
    r.set_error(error(StatusCode::bad_file,
                      "{}: clip.vision.attention.head_count: expected heads of a multiple of 4 "
                      "elements in {}, found {} heads",
                      r.metadata().source(), block.width, block.heads));
    block.heads = 1;
    block.width = 4;
  }
  block.feed_forward = r.get_int("vision.feed_forward_length", 0, 0, 1 << 20);
  if (const Weight* up = r.source().find("v.blk.0.ffn_up.weight"); up != nullptr) {
    const auto& shape = up->desc.shape;
    if (block.feed_forward == 0) block.feed_forward = shape[shape[0] == block.width ? 1 : 0];
    block.swapped = shape[0] == block.feed_forward && shape[1] == block.width;
  }
  block.feed_forward = std::max<int64_t>(block.feed_forward, 1);
  info.architecture = "clip";
  info.layers = r.need_int("vision.block_count", 1, 1 << 10);
  info.embedding = block.width;
  info.embeds = Pooling::none;
  info.causal = false;
  return block;
}

ValueId limited_glu(ModelBuilder& m, ValueId gate, ValueId up, op::Glu::Kind kind, float limit) {
  if (limit > 0) {
    gate = m.g.add(op::Scale{.most = limit}, {gate});
    up = m.g.add(op::Scale{.least = -limit, .most = limit}, {up});
  }
  return m.g.add(op::Glu{kind}, {gate, up});
}

ValueId vision_attention(ModelBuilder& m, ValueId x, const std::string& prefix,
                         const VisionBlock& block) {
  const auto name = [&](const char* part) { return prefix + part; };
  const ValueId h = normed(m, x, name("ln1"), block);
  const int64_t kv_heads = block.kv_heads > 0 ? block.kv_heads : block.heads;
  const int64_t kv_width = block.width / block.heads * kv_heads;
  ValueId parts[3];
  if (m.has(name("attn_qkv.weight"))) {
    const ValueId all = m.linear(h, name("attn_qkv"), block.width + 2 * kv_width);
    parts[0] = m.g.slice(all, 0, block.width);
    for (int i = 1; i < 3; ++i) {
      parts[i] = m.g.slice(all, block.width + (i - 1) * kv_width, kv_width);
    }
  } else {
    for (int i = 0; i < 3; ++i) {
      constexpr const char* kNames[] = {"attn_q", "attn_k", "attn_v"};
      parts[i] = m.linear(h, name(kNames[i]), i == 0 ? block.width : kv_width);
    }
  }
  for (int i = 0; i < 2 && block.qk_norms; ++i) {
    const char* part = i == 0 ? "attn_q_norm.weight" : "attn_k_norm.weight";
    parts[i] = m.rms_norm(parts[i], name(part), VisionBlock::kQkEps);
  }
  for (int i = 0; i < 3; ++i) parts[i] = m.g.split_heads(parts[i], i == 0 ? block.heads : kv_heads);
  for (int i = 0; i < 2 && block.head_norms; ++i) {
    const char* part = i == 0 ? "attn_q_norm.weight" : "attn_k_norm.weight";
    parts[i] = m.rms_norm(parts[i], name(part), block.eps);
  }
  for (int i = 0; i < 2 && block.rotate; ++i) parts[i] = m.rope(parts[i], block.style);
  const float scale = 1.0f / std::sqrt(static_cast<float>(block.width / block.heads));
  const op::TextAttention attention{.scale = scale};
  const ValueId mixed =
      block.lists == 0
          ? m.text_attention(parts[0], parts[1], parts[2], attention, kNoValue, block.division)
          : m.g.merge_heads(m.g.add(
                attention,
                {parts[0], parts[1], parts[2], m.g.input(StepInput::output_rows, block.lists),
                 m.g.input(StepInput::output_rows, block.lists + 1), kNoValue}));
  const ValueId added = m.linear(mixed, name("attn_out"), block.width);
  return m.add(x, scaled(m, added, name("ls1.weight"), block));
}

ValueId vision_layer(ModelBuilder& m, ValueId x, int64_t layer, const VisionBlock& block) {
  const auto name = [&](const char* part) { return vision_name(layer, part); };
  m.g.set_unit({UnitKind::attention, static_cast<int32_t>(layer)});
  x = vision_attention(m, x, name(""), block);
  m.g.set_unit({UnitKind::feed_forward, static_cast<int32_t>(layer)});
  ValueId h = normed(m, x, name("ln2"), block);
  ValueId up = m.linear(h, name(block.swapped ? "ffn_down" : "ffn_up"), block.feed_forward);
  if (block.gated) {
    const ValueId gate = m.linear(h, name("ffn_gate"), block.feed_forward);
    up = limited_glu(m, gate, up, *block.gated, block.limit);
  } else {
    up = m.g.add(op::Gelu{block.activation}, {up});
  }
  h = m.linear(up, name(block.swapped ? "ffn_up" : "ffn_down"), block.width);
  return m.add(x, scaled(m, h, name("ls2.weight"), block));
}

}  // namespace infer
