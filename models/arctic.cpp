// Arctic: the plain decoder, whose feed-forward is as wide as the model; beside it experts, which
// take what enters the layer through a norm of their own. Snowflake 2024.
#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_experts.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

class Arctic final : public DecoderModel {
 public:
  explicit Arctic(HparamReader& r) : DecoderModel(r, op::Rope::Style::interleaved) {
    experts.route = read_route(r, params, 1, true);
  }

  ValueId feed_forward(ModelBuilder& m, ValueId x, int64_t layer) const override {
    const ValueId own = feed_forward_block(m, x, layer, params.embedding, glu);
    const std::string norm = block_name(layer, "ffn_norm_exps.weight");
    return m.add(
        own, experts_block(m, m.rms_norm(m.layer_input, norm, params.eps), layer, experts, glu));
  }
};

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  return DecoderModel::finish(std::make_unique<Arctic>(r), r);
}

void map(CheckpointMap& m) {
  m.begin({.architecture = "arctic"});
  m.config.require(m.config.get_bool("use_residual", true), "use_residual false");
  m.config.require(m.config.get_bool("parallel_attn_mlp_res", true), "parallel_attn_mlp_res false");
  m.config.require(m.config.get_int("moe_layer_frequency", 1, 1, 1024) == 1, "moe_layer_frequency");
  const int64_t experts = map_expert_counts(m);
  m.ends();
  m.layers({{"input_layernorm", "attn_norm"},
            {"residual_layernorm", "ffn_norm"},
            {"post_attention_layernorm", "ffn_norm_exps"},
            {"residual_mlp.w1", "ffn_gate"},
            {"residual_mlp.w3", "ffn_up"},
            {"residual_mlp.w2", "ffn_down"},
            {"block_sparse_moe.gate", "ffn_gate_inp"}});
  m.attention();
  for (int64_t i = 0; i < m.layer_count(); ++i) {
    add_experts(m.tensors, i, "block_sparse_moe.experts", experts, {"w1", "w3", "w2"});
  }
}

}  // namespace

const ArchDef& arctic_arch() {
  static constexpr const char* kNames[] = {"arctic"};
  static constexpr const char* kCheckpoints[] = {"ArcticForCausalLM"};
  static const ArchDef def{.names = kNames,
                           .create = create,
                           .checkpoints = kCheckpoints,
                           .map = map,
                           .layout = {.interleaves = true}};
  return def;
}

}  // namespace infer
