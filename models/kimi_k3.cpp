// Kimi K3, text only: the layers of Kimi Linear with bounded decays and gates of attention; experts
// that work in a narrower space; an activation that both saturate (SiTU). A part takes a softmax-
// weighted sum of the residual and of what it was at the begin of each block of layers, where it
// starts anew (attention residuals). Moonshot AI 2026.
#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_experts.h"
#include "engine/model/delta_latent_decoder.h"

namespace infer {
namespace {

class KimiK3 final : public DeltaLatentModel {
 public:
  explicit KimiK3(HparamReader& r)
      : DeltaLatentModel(r),
        block_(r.need_int("attn_res_block_size", 0, 1024)),
        narrow_(r.get_int("expert_latent_length", 0, 0, kMaxWidth)),
        gate_cap_(positive(r, "activation.situ_beta")),
        up_cap_(static_cast<float>(r.get_float("activation.situ_linear_beta", 0.0))) {
    info_.image_layers = 0;
    latent.rotate = false;
    latent.gate = AttentionBlock::Gate::apart;
    delta.flat = true;
  }

  void build(ModelBuilder& m) const override {
    ValueId x = m.embed_tokens();  // [embedding, 1, rows]
    ValueId kept = kNoValue;       // what it was, one after the other: [n·embedding, 1, rows]
    for (int64_t layer = 0; layer < params.layers; ++layer) {
      const auto name = [&](const char* part) { return block_name(layer, part); };
      m.g.set_unit({UnitKind::attention, static_cast<int32_t>(layer)});
      ValueId h = mix(m, x, kept, name("attn_res_score"));
      const bool begins = block_ > 0 && layer % block_ == 0;
      if (begins) kept = kept == kNoValue ? x : m.g.add(op::Concat{}, {kept, x});
      h = attend(m, m.rms_norm(h, name("attn_norm.weight"), params.eps), layer);
      if (layer + 1 == params.layers) {  // from here on only the rows whose logits are wanted
        for (ValueId* value : {&x, &h, &kept}) {
          if (*value != kNoValue) *value = m.select_outputs(*value);
        }
      }
      x = begins ? h : m.add(x, h);
      m.g.set_unit({UnitKind::feed_forward, static_cast<int32_t>(layer)});
      h = mix(m, x, kept, name("ffn_res_score"));
      x = m.add(x, feed_forward(m, m.rms_norm(h, name("ffn_norm.weight"), params.eps), layer));
    }
    m.g.set_unit({UnitKind::output, -1});
    x = m.rms_norm(mix(m, x, kept, "output_res_score"), "output_norm.weight", params.eps);
    if (m.embeds()) return m.output_embedding(x);
    m.g.output(m.output_logits(x), "logits");
  }

  ValueId feed_forward(ModelBuilder& m, ValueId x, int64_t layer) const override {
    const auto name = [&](const char* part) { return block_name(layer, part); };
    if (!m.has(name("ffn_gate_inp.weight"))) {
      return plain(m, x, layer, params.feed_forward[static_cast<size_t>(layer)], "");
    }
    const ValueId logits = m.linear(x, name("ffn_gate_inp"), experts.experts);
    const ValueId bias = m.optional_weight(name("exp_probs_b.bias"), {experts.experts});
    const std::vector<ValueId> routed =
        m.g.add_all(experts.route, {logits, bias, kNoValue, kNoValue});
    if (routed.size() != 2) return kNoValue;
    const int64_t width = narrow_ > 0 ? narrow_ : params.embedding;
    const ValueId in = narrow_ > 0 ? m.linear(x, name("ffn_routed_down"), width) : x;
    m.g.set_unit({UnitKind::experts, static_cast<int32_t>(layer)});
    const auto linear = [&](ValueId a, const char* part, int64_t n) {
      return m.expert_linear(a, routed[0], name(part), n, experts.experts);
    };
    ValueId mixed = activate(m, linear(in, "ffn_gate_exps", experts.width),
                             linear(in, "ffn_up_exps", experts.width));
    mixed = m.g.add(op::MoeCombine{}, {linear(mixed, "ffn_down_exps", width), routed[1]});
    m.g.set_unit({UnitKind::feed_forward, static_cast<int32_t>(layer)});
    if (const std::string norm = name("ffn_routed_norm.weight"); m.has(norm)) {
      mixed = m.rms_norm(mixed, norm, params.eps);
    }
    if (narrow_ > 0) mixed = m.linear(mixed, name("ffn_routed_up"), params.embedding);
    if (experts.shared_width == 0) return mixed;
    return m.add(mixed, plain(m, x, layer, experts.shared_width, "_shexp"));
  }

 private:
  static float positive(HparamReader& r, const char* key) {
    const double value = r.get_float(key, 0.0);
    if (!(value > 0)) {
      r.set_error(error(StatusCode::bad_file, "{}: {}: expected a number above 0, found {}",
                        r.metadata().source(), key, value));
    }
    return static_cast<float>(value);
  }

  /// x [embedding, 1, rows] and what is kept, weighted by a softmax over the products of `score`
  /// with what each is behind a norm.
  ValueId mix(ModelBuilder& m, ValueId x, ValueId kept, const std::string& score) const {
    GraphBuilder& g = m.g;
    // Files have scores for the first layer as well.
    const ValueId weight = m.optional_weight(score + ".weight", {params.embedding});
    if (kept == kNoValue) return x;
    const ValueId all = g.add(op::Concat{}, {kept, x});
    const int64_t count = g.value(all).desc.shape[0] / params.embedding;
    const ValueId each = g.split_heads(all, count);
    const ValueId normed = g.merge_heads(g.add(op::RmsNorm{params.eps}, {each, kNoValue}));
    if (weight == kNoValue) return m.weight(score + ".weight", {params.embedding});
    ValueId scores = kNoValue;
    for (int64_t i = 0; i < count; ++i) {
      const ValueId own = g.slice(normed, i * params.embedding, params.embedding);
      const ValueId product = g.add(op::Matmul{}, {own, weight, kNoValue, kNoValue});
      scores = i == 0 ? product : g.add(op::Concat{}, {scores, product});
    }
    op::MoeRoute shares;
    shares.gating = op::MoeRoute::Gating::softmax_in_order;
    shares.used = static_cast<int32_t>(count);
    const std::vector<ValueId> routed = g.add_all(shares, {scores, kNoValue, kNoValue, kNoValue});
    if (routed.size() != 2) return kNoValue;
    return g.add(op::MoeCombine{}, {each, routed[1]});
  }

  /// β·tanh(gate / β)·σ(gate) · β′·tanh(up / β′); without β′ `up` as it is.
  ValueId activate(ModelBuilder& m, ValueId gate, ValueId up) const {
    GraphBuilder& g = m.g;
    const ValueId capped = g.add(op::Softcap{gate_cap_}, {gate});
    const ValueId opened = g.add(op::Glu{op::Glu::Kind::sigmoid}, {gate, capped});
    if (up_cap_ > 0) up = g.add(op::Softcap{up_cap_}, {up});
    return g.add(op::Glu{op::Glu::Kind::bilinear}, {opened, up});
  }

  ValueId plain(ModelBuilder& m, ValueId x, int64_t layer, int64_t width,
                const char* suffix) const {
    const auto name = [&](const char* part) { return block_name(layer, part) + suffix; };
    const ValueId made =
        activate(m, m.linear(x, name("ffn_gate"), width), m.linear(x, name("ffn_up"), width));
    return m.linear(made, name("ffn_down"), params.embedding);
  }

  int64_t block_;   ///< layers of a block; 0: the residual is the usual one
  int64_t narrow_;  ///< elements that experts work in; 0: those of the model
  float gate_cap_;
  float up_cap_;  ///< 0: none
};

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  return DecoderModel::finish(std::make_unique<KimiK3>(r), r);
}

/// What scores residuals: the product of a norm's weights and a vector.
void map_scores(CheckpointMap& m) {
  const int64_t width = m.config.need_int("hidden_size", 1, kMaxWidth);
  const auto put = [&](const std::string& from, const std::string& to) {
    if (!m.config.status().ok()) return;
    std::vector<float> scores = m.tensors.values(from + "_norm.weight", width);
    const std::vector<float> weights = m.tensors.values(from + "_proj.weight", width);
    for (size_t i = 0; i < std::min(scores.size(), weights.size()); ++i) scores[i] *= weights[i];
    m.tensors.put_values(to + ".weight", std::move(scores));
  };
  for (int64_t i = 0; i < m.layer_count(); ++i) {
    put(layer_name(i, "self_attention_res"), block_name(i, "attn_res_score"));
    put(layer_name(i, "mlp_res"), block_name(i, "ffn_res_score"));
  }
  put("output_attn_res", "output_res_score");
}

void map(CheckpointMap& m) {
  rename_delta_keys(m);
  m.config.assume("topk_group", int64_t{1});
  m.begin({.architecture = "kimi-k3", .activation = "situ", .rope_width = "qk_rope_head_dim"});
  m.config.require(m.config.get_bool("mla_use_nope", true), "mla_use_nope false");
  m.ends();
  const std::vector<bool> delta = listed_delta_layers(m);
  for (int64_t i = 0; i < m.layer_count(); ++i) {
    m.tensors.also_named(layer_name(i, "block_sparse_moe."), layer_name(i, "mlp."));
    const bool full = i < std::ssize(delta) && !delta[static_cast<size_t>(i)];
    m.tensors.copy(layer_name(i, "self_attn.g_proj.weight"),
                   block_name(i, full ? "attn_gate.weight" : "ssm_g.weight"));
  }
  m.layers({{"input_layernorm", "attn_norm"},
            {"post_attention_layernorm", "ffn_norm"},
            {"self_attn.f_a_proj", "ssm_f_a"},
            {"self_attn.f_b_proj", "ssm_f_b"},
            {"mlp.routed_expert_down_proj", "ffn_routed_down"},
            {"mlp.routed_expert_up_proj", "ffn_routed_up"},
            {"mlp.routed_expert_norm", "ffn_routed_norm"}});
  map_latent(m);
  map_kimi_delta(m, delta, true);
  const std::string bound = "linear_attn_config.gate_lower_bound";
  if (m.config.has(bound)) {
    m.keys.set_float("kda.gate_lower_bound", m.config.get_float(bound, 0.0));
  }
  if (const int64_t narrow = m.config.get_int("routed_expert_hidden_size", 0, 0, kMaxWidth);
      narrow > 0) {
    m.keys.set_int("expert_latent_length", narrow);
  }
  m.keys.set_float("activation.situ_beta", m.config.get_float("activation_situ_beta", 0.0));
  m.keys.set_float("activation.situ_linear_beta",
                   m.config.get_float("activation_situ_linear_beta", 0.0));
  m.keys.set_int("attn_res_block_size", m.config.need_int("attn_res_block_size", 1, 1024));
  map_scores(m);
  m.feed_forward();
  map_deepseek_experts(m, DeepseekRouting::v3, {"w1", "w3", "w2"});
  for (const char* part : {"vision_tower.", "mm_projector."}) m.tensors.ignore_prefix(part);
}

}  // namespace

const ArchDef& kimi_k3_arch() {
  static constexpr const char* kNames[] = {"kimi-k3"};
  static constexpr const char* kCheckpoints[] = {"KimiK3ForConditionalGeneration"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
