// EXAONE 3 and 3.5: the plain decoder with half-split RoPE. LG AI Research 2024.
#include "engine/model/checkpoint.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  auto model = std::make_unique<DecoderModel>(r, op::Rope::Style::half_split);
  return DecoderModel::finish(std::move(model), r);
}

/// Checkpoints have names of GPT-2, and some keys of theirs.
void map(CheckpointMap& m) {
  if (m.config.has("num_layers")) {
    m.config.assume("num_hidden_layers", m.config.need_int("num_layers", 1, 1024));
  }
  m.config.assume("rms_norm_eps", m.config.get_float("layer_norm_epsilon", 1e-5));
  m.config.assume("hidden_act", m.config.get_string("activation_function", "silu"));
  m.begin({.architecture = "exaone", .rope_base = 500000.0, .table = "wte.weight"});
  m.tensors.also_named("wte.", "embed_tokens.");
  m.tensors.also_named("ln_f.", "norm.");
  m.tensors.also_named("h.", "layers.");
  m.ends();
  m.layers({{"ln_1", "attn_norm"},
            {"ln_2", "ffn_norm"},
            {"attn.attention.q_proj", "attn_q"},
            {"attn.attention.k_proj", "attn_k"},
            {"attn.attention.v_proj", "attn_v"},
            {"attn.attention.out_proj", "attn_output"},
            {"mlp.c_fc_0", "ffn_gate"},
            {"mlp.c_fc_1", "ffn_up"},
            {"mlp.c_proj", "ffn_down"}});
}

}  // namespace

const ArchDef& exaone_arch() {
  static constexpr const char* kNames[] = {"exaone"};
  static constexpr const char* kCheckpoints[] = {"ExaoneForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
