// Kimi Linear: three of four layers are Kimi delta attention, a gated delta net whose decay differs
// by channel of a key; the others multi-head latent attention without RoPE. Experts as in DeepSeek
// V3, with leading layers that have none. Kimi Team 2025.
#include <cmath>

#include "engine/core/portable_math.h"
#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_experts.h"
#include "engine/model/decoder.h"
#include "engine/model/latent_attention.h"

namespace infer {
namespace {

constexpr int64_t kMaxWidth = int64_t{1} << 20;
constexpr float kUnitEps = 1e-6f;  ///< of the lengths of q and k, whatever the file says

/// Sizes of Kimi delta attention.
struct DeltaAttention {
  int64_t heads = 1;
  int64_t dim = 1;  ///< elements of a key and of a value
  int64_t taps = 2;

  int64_t width() const { return heads * dim; }
  /// Where the convolution number i of queries, keys and values has its part of the state.
  int64_t conv_at(int64_t i) const { return i * conv_state(taps, width()); }
  int64_t state() const { return conv_at(3) + scan_state(heads, dim, dim); }
};

class KimiLinear final : public DecoderModel {
 public:
  explicit KimiLinear(HparamReader& r)
      : DecoderModel(r, op::Rope::Style::interleaved, true), latent_(r, params, first_latent()) {
    latent_.rotate = false;
    delta_.heads = params.heads;
    delta_.dim = r.need_int("kda.head_dim", 1, kMaxWidth);
    delta_.taps = r.need_int("ssm.conv_kernel", 2, kMostTaps);
    latent_.set_caches(info_.kv_layers);
    for (AttentionBlock& block : attention) {
      if (attends(block.layer)) continue;
      block.kv_heads = block.heads;
      block.head_dim = block.value_dim = delta_.dim;
      add_state(block.layer, delta_.state());
    }
    if (params.experts == 0) return;
    experts.route = read_route(r, params, 2, true);
    experts.shared_width = r.get_int("expert_shared_count", 0, 0, 1024) * experts.width;
  }

  ValueId attend(ModelBuilder& m, ValueId x, int64_t layer) const override {
    const AttentionBlock& block = attention[static_cast<size_t>(layer)];
    if (attends(layer)) return latent_block(m, x, layer, latent_, block.cache);
    const auto name = [&](const char* part) { return block_name(layer, part); };
    GraphBuilder& g = m.g;
    const int32_t cache = states[static_cast<size_t>(layer)];
    const auto heads = [&](ValueId a) { return g.split_heads(a, delta_.heads); };
    const auto narrow = [&](const char* in, const char* out) {
      return heads(m.linear(m.linear(x, name(in), delta_.dim), name(out), delta_.width()));
    };
    const ValueId step = narrow("ssm_f_a", "ssm_f_b");
    const ValueId write = m.linear(x, name("ssm_beta"), delta_.heads);
    const ValueId gate = narrow("ssm_g_a", "ssm_g_b");
    std::array<ValueId, 3> qkv = project_qkv(m, x, block);
    constexpr const char* kConvs[] = {"ssm_conv1d_q", "ssm_conv1d_k", "ssm_conv1d_v"};
    for (size_t i = 0; i < qkv.size(); ++i) {
      qkv[i] = heads(m.causal_conv(qkv[i], name(kConvs[i]), delta_.taps, cache, true,
                                   delta_.conv_at(static_cast<int64_t>(i))));
    }
    // A key of length one is one of mean square 1 / dim.
    const auto width = static_cast<float>(delta_.dim);
    const op::RmsNorm unit{kUnitEps / width};
    const op::DeltaScan scan{cache, delta_.conv_at(3), 1.0f / width, 1.0f / std::sqrt(width), false,
                             true};
    ValueId out =
        g.add(scan, {g.add(unit, {qkv[0], kNoValue}), g.add(unit, {qkv[1], kNoValue}), qkv[2], step,
                     write, g.merge_heads(m.weight(name("ssm_a"), {1, delta_.heads})),
                     m.weight(name("ssm_dt.bias"), {delta_.width()}), g.input(StepInput::slots),
                     g.input(StepInput::sequences)});
    out = m.rms_norm(out, name("ssm_norm.weight"), params.eps);
    out = g.add(op::Glu{op::Glu::Kind::sigmoid}, {gate, out});
    return m.linear(g.merge_heads(out), name("attn_output"), params.embedding);
  }

 private:
  /// The first layer with latent attention, or 0.
  int64_t first_latent() const {
    for (int64_t layer = 0; layer < params.layers; ++layer) {
      if (attends(layer)) return layer;
    }
    return 0;
  }

  LatentBlock latent_;
  DeltaAttention delta_;
};

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  return DecoderModel::finish(std::make_unique<KimiLinear>(r), r);
}

/// Which layers have delta attention: layer_types, or lists of numbers from 1.
std::vector<bool> delta_layers(CheckpointMap& m) {
  const auto count = static_cast<size_t>(m.layer_count());
  std::vector<bool> delta(count, true);
  if (const std::vector<std::string>* types = m.config.get_strings("layer_types")) {
    m.config.require(types->size() == count, "this number of layer_types");
    for (size_t i = 0; i < count && i < types->size(); ++i) {
      delta[i] = (*types)[i] == "linear_attention";
      m.config.require(delta[i] || (*types)[i] == "full_attention", "these layer_types");
    }
    return delta;
  }
  const std::vector<int64_t> full = m.config.get_ints("linear_attn_config.full_attn_layers");
  m.config.require(!full.empty(), "a configuration without layer_types and full_attn_layers");
  for (const int64_t number : full) {
    const bool there = number >= 1 && number <= m.layer_count();
    m.config.require(there, "these full_attn_layers");
    if (there) delta[static_cast<size_t>(number - 1)] = false;
  }
  return delta;
}

/// The keys under the names that other families have.
void rename_keys(CheckpointMap& m) {
  constexpr std::pair<const char*, const char*> kRenamed[] = {
      {"max_position_embeddings", "model_max_length"},
      {"n_routed_experts", "num_experts"},
      {"n_routed_experts", "num_local_experts"},
      {"num_experts_per_tok", "num_experts_per_token"},
      {"n_shared_experts", "num_shared_experts"},
      {"norm_topk_prob", "moe_renormalize"},
      {"scoring_func", "moe_router_activation_func"},
      {"n_group", "num_expert_group"},
      {"linear_head_dim", "linear_attn_config.head_dim"},
      {"linear_num_heads", "linear_attn_config.num_heads"},
      {"linear_conv_kernel_dim", "linear_attn_config.short_conv_kernel_size"}};
  for (const auto& [usual, own] : kRenamed) {
    const MetaValue* const value = m.config.values().find(m.config.prefix() + own);
    if (value == nullptr || m.config.has(usual)) continue;
    const MetaValue copy = *value;
    m.config.assume(usual, copy);
  }
  m.config.assume("topk_group", int64_t{1});
}

void map_delta_layer(CheckpointMap& m, int64_t layer, const DeltaAttention& sizes) {
  CheckpointTensors& t = m.tensors;
  const std::string from = layer_name(layer, "self_attn.");
  const int64_t width = sizes.width();
  const bool joined = t.has(from + "conv1d.weight");
  constexpr const char* kParts[] = {"q", "k", "v"};
  for (int64_t i = 0; i < 3; ++i) {
    const std::string part = kParts[i];
    const TensorView taps =
        joined ? t.view(from + "conv1d.weight", {sizes.taps, width, 3}).sliced(2, i, 1)
               : t.view(from + part + "_conv1d.weight", {sizes.taps, width});
    t.put_parts(block_name(layer, "ssm_conv1d_") + part + ".weight", {taps},
                {sizes.taps, 1, width});
  }
  std::vector<float> decays = t.values(from + "A_log", sizes.heads);
  for (float& a : decays) a = static_cast<float>(-portable::exp(a));
  t.put_values(block_name(layer, "ssm_a"), std::move(decays), {1, sizes.heads});
  t.put_values(block_name(layer, "ssm_dt.bias"), t.values(from + "dt_bias", width));
}

void map(CheckpointMap& m) {
  rename_keys(m);
  m.begin({.architecture = "kimi-linear", .rope_width = "qk_rope_head_dim"});
  m.config.require(m.config.get_bool("mla_use_nope", true), "mla_use_nope false");
  DeltaAttention sizes;
  sizes.heads = m.config.get_int("linear_num_heads", m.head_count(), 1, 4096);
  sizes.dim = m.config.need_int("linear_head_dim", 1, kMaxWidth);
  sizes.taps = m.config.get_int("linear_conv_kernel_dim", 4, 2, kMostTaps);
  m.config.require(sizes.heads == m.head_count(), "this linear_num_heads");
  m.ends();
  m.layers({{"input_layernorm", "attn_norm"},
            {"post_attention_layernorm", "ffn_norm"},
            {"self_attn.k_proj", "attn_k"},
            {"self_attn.v_proj", "attn_v"},
            {"self_attn.f_a_proj", "ssm_f_a"},
            {"self_attn.f_b_proj", "ssm_f_b"},
            {"self_attn.g_a_proj", "ssm_g_a"},
            {"self_attn.g_b_proj", "ssm_g_b"},
            {"self_attn.b_proj", "ssm_beta"},
            {"self_attn.o_norm", "ssm_norm"}});
  map_latent(m);
  m.keys.set_int("kda.head_dim", sizes.dim);
  m.keys.set_int("ssm.conv_kernel", sizes.taps);
  const std::vector<bool> delta = delta_layers(m);
  std::vector<int64_t> heads;
  for (int64_t i = 0; i < m.layer_count(); ++i) {
    heads.push_back(delta[static_cast<size_t>(i)] ? 0 : 1);  // what is cached is one head's
    if (heads.back() == 0 && m.config.status().ok()) map_delta_layer(m, i, sizes);
    m.tensors.also_named(layer_name(i, "block_sparse_moe."), layer_name(i, "mlp."));
  }
  m.keys.set_ints("attention.head_count_kv", heads);
  m.feed_forward();
  map_deepseek_experts(m, DeepseekRouting::v3, {"w1", "w3", "w2"});
}

}  // namespace

const ArchDef& kimi_linear_arch() {
  static constexpr const char* kNames[] = {"kimi-linear"};
  static constexpr const char* kCheckpoints[] = {"KimiLinearForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
