// CodeShell: LayerNorms and projections with biases, half-split RoPE, a feed-forward of GELU
// without a gate. Xie et al. 2024.
#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_rope.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

constexpr const char* kGelu = "gelu_pytorch_tanh";

class CodeShell final : public DecoderModel {
 public:
  explicit CodeShell(HparamReader& r) : DecoderModel(r, op::Rope::Style::half_split) {
    params.eps = r.epsilon("attention.layer_norm_epsilon");
    layer_norms = true;
  }

  ValueId feed_forward(ModelBuilder& m, ValueId x, int64_t layer) const override {
    return gelu_block(m, x, layer, params.feed_forward[static_cast<size_t>(layer)],
                      op::Gelu::Kind::tanh);
  }
};

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  return DecoderModel::finish(std::make_unique<CodeShell>(r), r);
}

void map(CheckpointMap& m) {
  for (const auto& [name, own] : {std::pair{"num_hidden_layers", "n_layer"},
                                  {"num_attention_heads", "n_head"},
                                  {"hidden_size", "n_embd"},
                                  {"intermediate_size", "n_inner"},
                                  {"max_position_embeddings", "n_positions"}}) {
    if (m.config.has(own)) m.config.assume(name, m.config.need_int(own, 1, kMaxContext));
  }
  m.config.assume("intermediate_size", 4 * m.config.need_int("hidden_size", 1, kMaxWidth));
  if (m.config.get_bool("group_query_attention", true)) {
    m.config.assume("num_key_value_heads", m.config.need_int("num_query_groups", 1, 4096));
  }
  m.config.assume("layer_norm_eps", m.config.get_float("layer_norm_epsilon", 1e-5));
  m.config.assume("hidden_act", m.config.get_string("activation_function", kGelu));
  m.begin({.architecture = "codeshell",
           .activation = kGelu,
           .layer_norms = true,
           .table = "wte.weight"});
  require_plain_rope(m);
  m.config.require(m.config.get_string("position_embedding_type", "rope") == "rope",
                   "this position_embedding_type");
  m.tensors.also_named("wte.", "embed_tokens.");
  m.tensors.also_named("ln_f.", "norm.");
  m.tensors.also_named("h.", "layers.");
  m.ends();
  m.tensors.copy("norm.bias", "output_norm.bias");
  m.layers({{"ln_1", "attn_norm"},
            {"ln_2", "ffn_norm"},
            {"attn.c_attn", "attn_qkv"},
            {"attn.c_proj", "attn_output"},
            {"mlp.c_fc", "ffn_up"},
            {"mlp.c_proj", "ffn_down"}});
  for (int64_t i = 0; i < m.layer_count(); ++i) m.tensors.ignore(layer_name(i, "attn.bias"));
}

}  // namespace

const ArchDef& codeshell_arch() {
  static constexpr const char* kNames[] = {"codeshell"};
  static constexpr const char* kCheckpoints[] = {"CodeShellForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
