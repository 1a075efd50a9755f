// MiniMax-01 and M1: most layers have lightning attention (Qin et al. 2024), whose state decays by
// a constant of the head and the layer; the others softmax attention with RoPE over part of the
// head. The residual is what a part takes, behind its norm; experts in every layer. MiniMax 2025.
#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_experts.h"
#include "engine/model/checkpoint_rope.h"
#include "engine/model/decoder.h"
#include "engine/model/delta_net.h"

namespace infer {
namespace {

/// Epsilon of the norm behind lightning attention, as in transformers. llama.cpp uses the file's.
constexpr float kInnerEps = 1e-6f;

class MiniMax01 final : public DecoderModel {
 public:
  explicit MiniMax01(HparamReader& r) : DecoderModel(r, op::Rope::Style::half_split) {
    normed_residual = true;
    residual_scale = static_cast<float>(r.get_float("residual_scale", 1.0));
    const std::string interval = "full_attention_interval";
    drop_attention(r.has("attention.recurrent_layers") || r.has(interval)
                       ? recurrent_layers(r, params.layers)
                       : every_eighth());
    experts.route.normalise = true;
    for (const AttentionBlock& block : attention) {
      if (!attends(block.layer)) {
        add_state(block.layer, scan_state(block.heads, params.head_dim, params.head_dim));
      }
    }
  }

  ValueId attend(ModelBuilder& m, ValueId x, int64_t layer) const override {
    if (attends(layer)) return DecoderModel::attend(m, x, layer);
    const auto name = [&](const char* part) { return block_name(layer, part); };
    GraphBuilder& g = m.g;
    const int64_t heads = params.heads;
    const int64_t dim = params.head_dim;
    ValueId all = m.linear(x, name("attn_qkv"), 3 * heads * dim);
    all = g.split_heads(g.add(op::Glu{op::Glu::Kind::sigmoid}, {all, all}), heads);  // SiLU
    const ValueId mixed = g.add(
        op::SsmScan{states[static_cast<size_t>(layer)], 0, slope(layer)},
        {g.slice(all, 2 * dim, dim), g.slice(all, dim, dim), g.slice(all, 0, dim), kNoValue,
         kNoValue, kNoValue, kNoValue, g.input(StepInput::slots), g.input(StepInput::sequences)});
    const ValueId normed = m.rms_norm(g.merge_heads(mixed), name("attn_norm_2.weight"), kInnerEps);
    const ValueId gate = m.linear(x, name("attn_gate"), heads * dim);
    return m.linear(g.add(op::Glu{op::Glu::Kind::sigmoid}, {gate, normed}), name("attn_output"),
                    params.embedding);
  }

 private:
  /// What slopes of heads are multiplied with: from 1 in the first layer to nearly 0 in the last.
  float slope(int64_t layer) const {
    constexpr double kLeast = 1e-5;
    const auto last = static_cast<double>(params.layers - 1) + kLeast;
    return static_cast<float>(1 - static_cast<double>(layer) / last + kLeast);
  }

  /// Which layers are recurrent in files that do not say.
  std::vector<bool> every_eighth() const {
    std::vector<bool> recurrent;
    for (int64_t layer = 0; layer < params.layers; ++layer) {
      recurrent.push_back((layer + 1) % 8 != 0);
    }
    return recurrent;
  }
};

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  return DecoderModel::finish(std::make_unique<MiniMax01>(r), r);
}

/// Which layers have lightning attention: layer_types, or 0 in attn_type_list, or every second.
std::vector<bool> lightning_layers(CheckpointMap& m) {
  const auto count = static_cast<size_t>(m.layer_count());
  std::vector<bool> lightning(count);
  const std::vector<std::string>* types = m.config.get_strings("layer_types");
  const std::vector<int64_t> numbers = m.config.get_ints("attn_type_list");
  if (types != nullptr || !numbers.empty()) {
    const size_t found = types != nullptr ? types->size() : numbers.size();
    m.config.require(found == count, "this number of layer_types");
    for (size_t i = 0; i < std::min(found, count); ++i) {
      lightning[i] = types != nullptr ? (*types)[i] == "linear_attention" : numbers[i] == 0;
      const bool known =
          types != nullptr ? lightning[i] || (*types)[i] == "full_attention" : numbers[i] <= 1;
      m.config.require(known, "these layer_types");
    }
    return lightning;
  }
  for (size_t i = 0; i < count; ++i) lightning[i] = i % 2 == 1;
  return lightning;
}

/// All parts have one factor for what they take, and 1 for what they make.
void map_residual(CheckpointMap& m) {
  std::vector<double> alphas;
  for (const auto& [name, published] : {std::pair{"full_attn", "full_attention"},
                                        {"linear_attn", "linear_attention"},
                                        {"mlp", "mlp"}}) {
    const auto factor = [&](const char* which) {
      return m.config.get_float(
          fmt::format("{}_{}_factor", name, which),
          m.config.get_float(fmt::format("layernorm_{}_{}", published, which), 1.0));
    };
    alphas.push_back(factor("alpha"));
    m.config.require(factor("beta") == 1.0, fmt::format("{}_beta_factor", name));
    m.config.require(alphas.back() == alphas.front(), fmt::format("{}_alpha_factor", name));
  }
  m.keys.set_float("residual_scale", alphas.front());
}

void map(CheckpointMap& m) {
  const int64_t heads = m.config.need_int("num_attention_heads", 1, 4096);
  const int64_t width = m.config.need_int("hidden_size", 1, kMaxWidth);
  const int64_t head = m.config.get_int("head_dim", width / heads, 1, kMaxWidth);
  m.config.assume("head_dim", head);
  if (const int64_t rotated = m.config.get_int("rotary_dim", 0, 0, kMaxWidth); rotated > 0) {
    m.config.assume("partial_rotary_factor",
                    static_cast<double>(rotated) / static_cast<double>(head));
  }
  m.begin({.architecture = "minimax-01", .rope_base = 1e6});
  m.config.require(m.config.get_bool("postnorm", true), "postnorm false");
  m.config.require(m.config.get_int("shared_intermediate_size", 0, 0, kMaxWidth) == 0,
                   "shared_intermediate_size");
  m.config.require(m.config.get_int("sliding_window", 0, 0, kMaxContext) == 0, "sliding_window");
  m.config.require(m.config.get_float("router_jitter_noise", 0.0) == 0, "router_jitter_noise");
  map_residual(m);
  const int64_t experts = map_expert_counts(m);
  m.ends();
  m.layers({{"input_layernorm", "attn_norm"},
            {"post_attention_layernorm", "ffn_norm"},
            {"self_attn.qkv_proj", "attn_qkv"},
            {"self_attn.norm", "attn_norm_2"},
            {"self_attn.output_gate", "attn_gate"},
            {"self_attn.out_proj", "attn_output"},
            {"block_sparse_moe.gate", "ffn_gate_inp"}});
  m.attention();
  m.keys.set_flags("attention.recurrent_layers", lightning_layers(m));
  for (int64_t i = 0; i < m.layer_count(); ++i) {
    for (const char* constant : {"slope_rate", "query_decay", "key_decay", "diagonal_decay"}) {
      m.tensors.ignore(layer_name(i, "self_attn.") + constant);
    }
    add_experts(m.tensors, i, "block_sparse_moe.experts", experts, {"w1", "w3", "w2"});
  }
}

}  // namespace

const ArchDef& minimax_01_arch() {
  static constexpr const char* kNames[] = {"minimax-01"};
  static constexpr const char* kCheckpoints[] = {"MiniMaxText01ForCausalLM", "MiniMaxM1ForCausalLM",
                                                 "MiniMaxForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
