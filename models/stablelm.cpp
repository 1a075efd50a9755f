// StableLM 3B and 2: LayerNorms with biases, half-split RoPE over a part of the head. StableLM 2
// 12B has a LayerNorm on every q and k head, and attention and feed-forward side by side on one
// norm. Bellagente et al. 2024.
#include "engine/model/checkpoint.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  auto model = std::make_unique<DecoderModel>(r, op::Rope::Style::half_split);
  model->params.eps = r.epsilon("attention.layer_norm_epsilon");
  model->layer_norms = true;
  model->parallel = source.find("blk.0.ffn_norm.weight") == nullptr;
  const bool head_norms = source.find("blk.0.attn_q_norm.weight") != nullptr;
  for (AttentionBlock& block : model->attention) {
    block.eps = model->params.eps;
    if (head_norms) block.qk_norm = AttentionBlock::QkNorm::layer;
  }
  return DecoderModel::finish(std::move(model), r);
}

/// Norms of heads, which checkpoints have as a tensor for each.
void map_head_norms(CheckpointMap& m) {
  for (int64_t i = 0; i < m.layer_count(); ++i) {
    for (const auto& [from, to] :
         {std::pair{"q_layernorm", "attn_q_norm"}, {"k_layernorm", "attn_k_norm"}}) {
      const std::string name = layer_name(i, std::string("self_attn.") + from + ".norms.");
      std::vector<TensorView> parts;
      int64_t width = 0;
      while (m.tensors.has(fmt::format("{}{}.weight", name, parts.size()))) {
        const std::string part = fmt::format("{}{}.weight", name, parts.size());
        width = m.tensors.shape_of(part)[0];
        parts.push_back(m.tensors.view(part, {width}));
      }
      const auto count = static_cast<int64_t>(parts.size());
      m.tensors.put_parts(fmt::format("blk.{}.{}.weight", i, to), std::move(parts), {width, count});
    }
  }
}

void map(CheckpointMap& m) {
  m.config.assume("partial_rotary_factor", 0.25);
  m.begin({.architecture = "stablelm", .layer_norms = true});
  const bool parallel = m.config.get_bool("use_parallel_residual", false);
  m.config.require(parallel != m.tensors.has(layer_name(0, "post_attention_layernorm.weight")),
                   "this use_parallel_residual");
  m.keys.set_bool("use_parallel_residual", parallel);
  m.ends();
  m.tensors.copy("norm.bias", "output_norm.bias");
  m.layers({{"input_layernorm", "attn_norm"}, {"post_attention_layernorm", "ffn_norm"}});
  m.attention();
  m.feed_forward();
  if (m.config.get_bool("qk_layernorm", false)) map_head_norms(m);
}

}  // namespace

const ArchDef& stablelm_arch() {
  static constexpr const char* kNames[] = {"stablelm"};
  static constexpr const char* kCheckpoints[] = {"StableLmForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
