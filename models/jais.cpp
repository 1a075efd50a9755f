// Jais of the first generation: biases by distance in place of positions, LayerNorms and
// projections with biases, a gated feed-forward, scores divided by the size of a head. Core42,
// Inception 2023.
#include <bit>
#include <cmath>

#include "engine/graph/alibi.h"
#include "engine/model/checkpoint.h"
#include "engine/model/decoder.h"
#include "engine/model/turned_matrices.h"

namespace infer {
namespace {

class Jais final : public DecoderModel {
 public:
  explicit Jais(HparamReader& r) : DecoderModel(r, op::Rope::Style::half_split) {
    params.eps = r.epsilon("attention.layer_norm_epsilon");
    layer_norms = true;
    read_alibi(r, kUsualAlibi);
    for (AttentionBlock& block : attention) {
      block.scale = 1.0f / static_cast<float>(params.head_dim);
    }
  }
};

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  return DecoderModel::finish(std::make_unique<Jais>(r), r);
}

/// The slopes are stored: what 2^−x·(1/n) the first of them is.
double largest_bias(CheckpointMap& m) {
  const std::string name = "relative_pe.slopes";
  if (!m.tensors.has(name)) return kUsualAlibi;
  const std::vector<float> slopes = m.tensors.values(name, m.head_count());
  const auto n = std::bit_floor(static_cast<uint64_t>(m.head_count()));
  return -std::round(std::log2(static_cast<double>(slopes.front())) * static_cast<double>(n));
}

/// What the embedding and the logits are multiplied with becomes part of their matrices.
void map_ends(CheckpointMap& m, int64_t width) {
  const double embedding = m.config.has("mup_embeddings_scale")
                               ? m.config.get_float("mup_embeddings_scale", 1.0)
                               : m.config.get_float("embeddings_scale", 1.0);
  const double logits =
      m.config.has("mup_output_alpha")
          ? m.config.get_float("mup_output_alpha", 1.0) * m.config.get_float("mup_width_scale", 1.0)
          : m.config.get_float("width_scale", 1.0);
  const int64_t rows = m.tensors.shape_of("wte.weight")[1];
  const std::string output = m.tensors.has("lm_head.weight") ? "lm_head.weight" : "wte.weight";
  m.tensors.put_scaled("token_embd.weight", {m.tensors.view("wte.weight", {width, rows})},
                       {static_cast<float>(embedding)}, {width, rows});
  m.tensors.put_scaled("output.weight", {m.tensors.view(output, {width, rows})},
                       {static_cast<float>(logits)}, {width, rows});
  m.tensors.copy("ln_f.weight", "output_norm.weight");
  m.tensors.copy("ln_f.bias", "output_norm.bias");
}

void map(CheckpointMap& m) {
  for (const auto& [name, own] : {std::pair{"num_hidden_layers", "n_layer"},
                                  {"num_attention_heads", "n_head"},
                                  {"hidden_size", "n_embd"},
                                  {"max_position_embeddings", "n_positions"}}) {
    if (m.config.has(own)) m.config.assume(name, m.config.need_int(own, 1, kMaxContext));
  }
  const int64_t width = m.config.need_int("hidden_size", 1, kMaxWidth);
  const int64_t inner = m.config.need_int("n_inner", 1, kMaxWidth);
  m.config.assume("intermediate_size", inner);
  m.config.assume("layer_norm_eps", m.config.get_float("layer_norm_epsilon", 1e-5));
  m.config.assume("hidden_act", m.config.get_string("activation_function", "swiglu"));
  m.begin(
      {.architecture = "jais", .activation = "swiglu", .layer_norms = true, .table = "wte.weight"});
  m.config.require(m.config.get_string("position_embedding_type", "alibi") == "alibi",
                   "this position_embedding_type");
  for (const char* key : {"alibi_scaling", "alibi_scaling.type", "alibi_scaling.factor"}) {
    m.config.require(!m.config.has(key), key);
  }
  for (const char* key : {"scale_qk_dot_by_d", "mup_scale_qk_dot_by_d", "scale_attn_weights"}) {
    m.config.require(m.config.get_bool(key, true), key + std::string(" false"));
  }
  m.config.require(!m.config.get_bool("scale_attn_by_inverse_layer_idx", false),
                   "scale_attn_by_inverse_layer_idx");
  m.keys.set_float("attention.max_alibi_bias", largest_bias(m));
  m.tensors.also_named("h.", "layers.");
  map_ends(m, width);
  m.layers({{"ln_1", "attn_norm"}, {"ln_2", "ffn_norm"}});
  const TurnedMatrix matrices[] = {{"attn.c_attn", "attn_qkv", width, 3 * width},
                                   {"attn.c_proj", "attn_output", width, width},
                                   {"mlp.c_fc", "ffn_up", width, inner},
                                   {"mlp.c_fc2", "ffn_gate", width, inner},
                                   {"mlp.c_proj", "ffn_down", inner, width}};
  map_turned(m, matrices);
}

}  // namespace

const ArchDef& jais_arch() {
  static constexpr const char* kNames[] = {"jais"};
  static constexpr const char* kCheckpoints[] = {"JAISLMHeadModel"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
