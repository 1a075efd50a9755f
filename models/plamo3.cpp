// PLaMo 3: fused q/k/v with an RMSNorm on every q and k head, half-split RoPE; a sliding window
// with a RoPE of its own in all but every few layers; norms before and after each part. Preferred
// Networks 2025.
#include <cmath>
#include <tuple>
#include <utility>

#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_rope.h"
#include "engine/model/checkpoint_window.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

constexpr int64_t kPeriod = 8;  // of the layers that see everything
constexpr double kLocalBase = 10000.0;

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  auto model = std::make_unique<DecoderModel>(r, op::Rope::Style::half_split);
  model->post_norms = true;
  for (AttentionBlock& block : model->attention) block.qk_norm = AttentionBlock::QkNorm::per_head;
  if (r.get_int("attention.sliding_window", 0, 0, INT32_MAX) > 0) {
    model->set_windows_with_own_rope(r, r.sliding_layers(model->params.layers, kPeriod),
                                     kLocalBase);
  }
  return DecoderModel::finish(std::move(model), r);
}

/// Norms that the checkpoint holds less a number. Files name them without an ending.
void map_post_norms(CheckpointMap& m) {
  const int64_t width = m.config.need_int("hidden_size", 1, kMaxWidth);
  for (int64_t i = 0; i < m.layer_count() && m.tensors.ok(); ++i) {
    for (const auto& [from, to, less] :
         {std::tuple{"post_mixer_norm.weight", "post_attention_norm", 1.0 / 5},
          {"post_mlp_norm.weight", "post_ffw_norm", 1.0 / std::pow(5.0, 1.5)}}) {
      std::vector<float> values = m.tensors.values(layer_name(i, from), width);
      for (float& value : values) value += static_cast<float>(less);
      m.tensors.put_values(block_name(i, to), std::move(values));
    }
  }
}

/// Its own code takes the scaling of RoPE from keys beside each other.
void find_rope(CheckpointMap& m) {
  const double factor = m.config.get_float("rope_scaling_factor", 1.0);
  if (factor == 1.0 || m.config.has("rope_scaling.rope_type")) return;
  m.config.assume("rope_scaling.rope_type", std::string("yarn"));
  m.config.assume("rope_scaling.factor", factor);
  m.config.assume("rope_scaling.original_max_position_embeddings",
                  m.config.need_int("initial_context_length", 1, kMaxContext));
  m.config.assume("rope_scaling.beta_fast", 32.0);
  m.config.assume("rope_scaling.beta_slow", 1.0);
}

void map_windows(CheckpointMap& m) {
  const char* const key = m.config.has("window_size") ? "window_size" : "sliding_window";
  const int64_t window = m.config.get_int(key, 0, 0, INT32_MAX);
  if (window == 0) return;
  m.keys.set_int("attention.sliding_window", window);
  m.keys.set_float("rope.freq_base_swa", m.config.get_float("rope_local_theta", kLocalBase));
  map_sliding_layers(m, kPeriod);
}

void map(CheckpointMap& m) {
  find_rope(m);
  m.begin({.architecture = "plamo3"});
  m.tensors.also_named("layers.layers.", "layers.");
  map_windows(m);
  m.ends(Change::add_one);
  m.layers({{"pre_mixer_norm", "attn_norm", Change::add_one},
            {"pre_mlp_norm", "ffn_norm", Change::add_one},
            {"mixer.qkv_proj", "attn_qkv"},
            {"mixer.q_norm", "attn_q_norm", Change::add_one},
            {"mixer.k_norm", "attn_k_norm", Change::add_one},
            {"mixer.o_proj", "attn_output"},
            {"mlp.gate_up_proj", "ffn_up"},
            {"mlp.down_proj", "ffn_down"}});
  map_post_norms(m);
}

}  // namespace

const ArchDef& plamo3_arch() {
  static constexpr const char* kNames[] = {"plamo3"};
  static constexpr const char* kCheckpoints[] = {"Plamo3ForCausalLM", "PLaMo3ForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
