// Llama 1 to 3.2, Mistral, Mixtral, TinyLlama, SmolLM2: RMSNorm before each part, grouped-query
// attention with interleaved RoPE, SwiGLU or experts of it.
// Touvron et al. 2023; Dubey et al. 2024; Jiang et al. 2023 and 2024.
#include <cmath>

#include "engine/model/blocks.h"
#include "engine/model/hparams.h"

namespace infer {
namespace {

class Llama final : public Model {
 public:
  static Result<std::unique_ptr<Model>> create(const WeightSource& source) {
    HparamReader r(source);
    auto model = std::make_unique<Llama>();
    model->p_ = read_decoder_params(r);
    model->scale_ = static_cast<float>(r.get_float(
        "attention.scale", 1.0 / std::sqrt(static_cast<double>(model->p_.head_dim))));
    model->window_ = static_cast<int32_t>(
        r.get_int("attention.sliding_window", 0, 0, int64_t{1} << 30));
    RopeSpec rope = read_rope(r, model->p_.head_dim);
    rope.factors = weight_index(source, "rope_freqs.weight");  // Llama 3.1's scaling
    model->info_ = decoder_info(r, model->p_);
    model->info_.ropes = {rope};
    for (KvLayerShape& layer : model->info_.kv_layers) layer.window = model->window_;
    if (!r.status().ok()) return tl::unexpected(r.status());
    return model;
  }

  void build(ModelBuilder& m) const override {
    ValueId x = m.embed_tokens();  // [embedding, 1, rows]
    for (int64_t layer = 0; layer < p_.layers; ++layer) {
      const auto i = static_cast<size_t>(layer);
      m.g.set_unit({UnitKind::attention, static_cast<int32_t>(layer)});
      ValueId h = m.rms_norm(x, block_name(layer, "attn_norm.weight"), p_.eps);
      AttentionBlock attention;
      attention.layer = layer;
      attention.heads = p_.heads;
      attention.kv_heads = p_.kv_heads[i];
      attention.head_dim = p_.head_dim;
      attention.value_dim = p_.value_dim;
      attention.embedding = p_.embedding;
      attention.scale = scale_;
      attention.window = window_;
      x = m.add(x, attention_block(m, h, attention));
      if (layer + 1 == p_.layers) x = m.select_outputs(x);

      const bool experts = m.has(block_name(layer, "ffn_gate_inp.weight"));
      m.g.set_unit({experts ? UnitKind::experts : UnitKind::feed_forward,
                    static_cast<int32_t>(layer)});
      h = m.rms_norm(x, block_name(layer, "ffn_norm.weight"), p_.eps);
      if (experts) {
        ExpertsBlock block;
        block.layer = layer;
        block.experts = p_.experts;
        block.width = p_.feed_forward[i];
        block.route.used = static_cast<int32_t>(p_.experts_used);
        block.route.normalise = true;
        h = experts_block(m, h, block);
      } else {
        h = feed_forward_block(m, h, layer, p_.feed_forward[i]);
      }
      x = m.add(x, h);
    }
    x = m.rms_norm(x, "output_norm.weight", p_.eps);
    m.g.output(m.output_logits(x));
  }

 private:
  DecoderParams p_;
  float scale_ = 1.0f;
  int32_t window_ = 0;
};

}  // namespace

const ArchDef& llama_arch() {
  static constexpr const char* kNames[] = {"llama"};
  static const ArchDef def{kNames, Llama::create};
  return def;
}

}  // namespace infer
