// Hunyuan, dense and with experts: the plain decoder with half-split RoPE and, after it, an RMSNorm
// on every q and k head; experts are chosen by softmax, beside one that every token takes. Tencent
// Hunyuan Team 2024 and 2025.
#include <algorithm>

#include "engine/core/portable_math.h"
#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_experts.h"
#include "engine/model/checkpoint_rope.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  auto model = std::make_unique<DecoderModel>(r, op::Rope::Style::half_split);
  for (AttentionBlock& block : model->attention) {
    block.qk_norm = AttentionBlock::QkNorm::per_head;
    block.norm_last = true;
  }
  model->experts.route = read_route(r, model->params, 1, true);
  if (const Weight* up = source.find("blk.0.ffn_up_shexp.weight"); up != nullptr) {
    const int64_t dense = model->params.feed_forward.front();
    model->experts.shared_width =
        r.get_int("expert_shared_feed_forward_length", dense, 1, kMaxWidth);
  }
  return DecoderModel::finish(std::move(model), r);
}

/// Some configurations give a number for every layer; here all layers are alike.
int64_t same_in_all(CheckpointMap& m, const std::string& key) {
  const std::vector<int64_t> values = m.config.get_ints(key);
  bool same = !values.empty();
  for (const int64_t value : values) same = same && value == values.front();
  m.config.require(same, key + " that is not the same in all layers");
  return values.empty() ? 1 : values.front();
}

void map_experts(CheckpointMap& m) {
  const int64_t experts = same_in_all(m, "num_experts");
  m.keys.set_int("expert_count", experts);
  m.keys.set_int("expert_used_count", same_in_all(m, "moe_topk"));
  m.keys.set_int("expert_feed_forward_length",
                 m.tensors.shape_of(layer_name(0, "mlp.experts.0.gate_proj.weight"))[1]);
  m.keys.set_int("expert_shared_feed_forward_length",
                 m.tensors.shape_of(layer_name(0, "mlp.shared_mlp.gate_proj.weight"))[1]);
  m.layers({{"mlp.gate.wg", "ffn_gate_inp"},
            {"mlp.shared_mlp.gate_proj", "ffn_gate_shexp"},
            {"mlp.shared_mlp.up_proj", "ffn_up_shexp"},
            {"mlp.shared_mlp.down_proj", "ffn_down_shexp"}});
  for (int64_t i = 0; i < m.layer_count(); ++i) {
    add_experts(m.tensors, i, "mlp.experts", experts);
  }
}

void map(CheckpointMap& m) {
  const bool routed = m.config.checkpoint() == "HunYuanMoEV1ForCausalLM";
  m.begin({.architecture = routed ? "hunyuan-moe" : "hunyuan-dense"});
  m.config.require(!m.config.get_bool("use_cla", false), "use_cla");
  const std::string section = rope_section(m.config);
  if (const double alpha = m.config.get_float(section + "alpha", 0.0); alpha > 0) {
    // The base that leaves the slowest pair alpha times as slow.
    const auto dims = static_cast<double>(2 * m.rope_pairs());
    const double base =
        m.config.get_float(section + "rope_theta", m.config.get_float("rope_theta", 10000.0));
    m.keys.set_float("rope.freq_base", base * portable::pow(alpha, dims / (dims - 2)));
    // With it the models were trained for 256 Ki tokens; max_position_embeddings is the length
    // before.
    constexpr int64_t kTrained = 256 << 10;
    const int64_t said = m.config.need_int("max_position_embeddings", 1, kMaxContext);
    m.keys.set_int("context_length", std::max(said, kTrained));
  }
  m.ends();
  m.layers({{"input_layernorm", "attn_norm"},
            {"post_attention_layernorm", "ffn_norm"},
            {"self_attn.query_layernorm", "attn_q_norm"},
            {"self_attn.key_layernorm", "attn_k_norm"}});
  m.attention();
  routed ? map_experts(m) : m.feed_forward();
}

}  // namespace

const ArchDef& hunyuan_arch() {
  static constexpr const char* kNames[] = {"hunyuan-dense", "hunyuan-moe"};
  static constexpr const char* kCheckpoints[] = {"HunYuanDenseV1ForCausalLM",
                                                 "HunYuanMoEV1ForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
