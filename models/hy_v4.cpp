// Hunyuan 4: multi-head latent attention with attention sinks and a gate of every element, whose
// queries see some thousands of tokens that an index chooses; experts as in DeepSeek V3, with a
// limit on what SwiGLU multiplies. The residual has several streams. Each part takes a sum of the
// streams and gives what it makes to each of them, with weights that depend on all streams
// (hyper-connections, Zhu et al. 2024, without a mix among the streams). Tencent 2026.
#include <algorithm>
#include <tuple>
#include <utility>

#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_experts.h"
#include "engine/model/checkpoint_rope.h"
#include "engine/model/latent_attention.h"
#include "engine/model/limited_decoder.h"
#include "engine/model/slot_index.h"

namespace infer {
namespace {

constexpr int64_t kMostStreams = 64;
constexpr op::Glu kSigmoid{op::Glu::Kind::sigmoid};

class HyV4 final : public LimitedModel {
 public:
  explicit HyV4(HparamReader& r)
      : LimitedModel(r, op::Rope::Style::interleaved),
        block_(r, params, 0),
        streams_(r.need_int("hyper_connection.count", 2,
                            std::clamp<int64_t>(params.embedding, 2, kMostStreams))),
        least_(static_cast<float>(r.get_float("hyper_connection.epsilon", 1e-6))),
        magnitude_(static_cast<float>(r.get_float("hyper_connection.magnitude", 2.0))) {
    info_.image_layers = 0;
    block_.set_caches(info_.kv_layers);
    block_.gate = AttentionBlock::Gate::apart;
    experts.route = read_route(r, params, 2, true);
    experts.shared_width = r.get_int("expert_shared_count", 0, 0, 1024) * experts.width;
    experts.limits_gate = true;
    read_limits(r);
    read_index(r);
    if (info_.ropes[0].yarn) {
      r.set_error(error(StatusCode::unsupported,
                        "{}: rope.scaling.type yarn with this architecture",
                        r.metadata().source()));
    }
  }

  void build(ModelBuilder& m) const override {
    ValueId x = m.embed_tokens();
    x = m.g.add(op::MoeSpread{}, {x, constant(m, x, 1.0f)});  // [embedding, streams, rows]
    for (int64_t layer = 0; layer < params.layers; ++layer) {
      m.g.set_unit({UnitKind::attention, static_cast<int32_t>(layer)});
      auto [h, shares] = mix(m, x, block_name(layer, "hc_attn"));
      h = m.rms_norm(h, block_name(layer, "attn_norm.weight"), params.eps);
      h = attend(m, h, layer);
      if (layer + 1 == params.layers) {  // from here on only the rows whose logits are wanted
        for (ValueId* value : {&x, &h, &shares}) *value = m.select_outputs(*value);
      }
      x = m.add(x, m.g.add(op::MoeSpread{}, {h, shares}));
      m.g.set_unit({UnitKind::feed_forward, static_cast<int32_t>(layer)});
      std::tie(h, shares) = mix(m, x, block_name(layer, "hc_ffn"));
      h = m.rms_norm(h, block_name(layer, "ffn_norm.weight"), params.eps);
      x = m.add(x, m.g.add(op::MoeSpread{}, {feed_forward(m, h, layer), shares}));
    }
    m.g.set_unit({UnitKind::output, -1});
    x = m.rms_norm(mix(m, x, "output_hc", false).first, "output_norm.weight", params.eps);
    if (m.embeds()) return m.output_embedding(x);
    m.g.output(m.output_logits(x), "logits");
  }

  ValueId attend(ModelBuilder& m, ValueId x, int64_t layer) const override {
    return latent_block(m, x, layer, block_, attention[static_cast<size_t>(layer)].cache,
                        index_.caches.empty() ? nullptr : &index_);
  }

 private:
  void read_index(HparamReader& r) {
    if (r.get_int("attention.indexer.top_k", 0, 0, INT32_MAX) == 0) return;
    std::vector<bool> has = r.flags("attention.indexer.types", params.layers);
    if (has.empty()) has.assign(static_cast<size_t>(params.layers), true);
    has.resize(static_cast<size_t>(params.layers));
    index_.style = op::Rope::Style::interleaved;
    index_.eps = params.eps;
    index_.read(r, has, block_.rope + 1, info_.kv_layers);
    index_.unturned = index_.key - block_.rope;
    if (!has[0] || block_.q_latent == 0) {
      r.set_error(error(StatusCode::bad_file,
                        "{}: attention.indexer: expected an index in the first layer and "
                        "attention.q_lora_rank above 0",
                        r.metadata().source()));
    }
  }

  /// A number for each stream, [streams, 1, rows], with as many rows as x: zero times something,
  /// held at the number.
  ValueId constant(ModelBuilder& m, ValueId x, float value) const {
    return m.g.add(op::Scale{0.0f, value, value}, {m.g.slice(x, 0, streams_)});
  }

  /// What a part takes of x [embedding, streams, rows], and, if it `injects`, what each stream gets
  /// of what it makes: [embedding, 1, rows] and [streams, 1, rows].
  std::pair<ValueId, ValueId> mix(ModelBuilder& m, ValueId x, const std::string& name,
                                  bool injects = true) const {
    GraphBuilder& g = m.g;
    const int64_t parts = injects ? 2 : 1;
    const ValueId all = g.merge_heads(x);
    const ValueId normed = g.add(op::RmsNorm{params.eps}, {all, kNoValue});
    const ValueId weight =
        m.weight(name + "_fn.weight", {streams_ * params.embedding, parts * streams_});
    const ValueId base = m.weight(name + "_base.weight", {parts * streams_});
    const ValueId scales = m.weight(name + "_scale.weight", {parts});
    if (weight == kNoValue || base == kNoValue || scales == kNoValue) return {kNoValue, kNoValue};
    // Each part has a scale of its own.
    const auto gates = [&](int64_t part, float most) {
      const ValueId both = g.add(op::Matmul{}, {normed, weight, base, g.slice(scales, part, 1)});
      const ValueId own = g.slice(both, part * streams_, streams_);
      return m.add(g.add(kSigmoid, {own, constant(m, all, most)}), constant(m, all, least_));
    };
    const ValueId taken = g.add(op::MoeCombine{}, {x, gates(0, 1.0f)});
    return {taken, injects ? gates(1, magnitude_) : kNoValue};
  }

  LatentBlock block_;
  SlotIndex index_;
  int64_t streams_;
  float least_;      ///< added to weights of streams
  float magnitude_;  ///< of what streams get
};

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  return DecoderModel::finish(std::make_unique<HyV4>(r), r);
}

/// The names of hyper-connections: published, as transformers writes them, as it holds them.
void map_streams(CheckpointMap& m) {
  m.keys.set_int("hyper_connection.count", m.config.get_int("hc_mult", 4, 2, kMostStreams));
  m.keys.set_float("hyper_connection.epsilon", m.config.get_float("hc_eps", 1e-6));
  m.keys.set_float("hyper_connection.magnitude", m.config.get_float("hc_magnitude", 2.0));
  for (const std::string part : {"fn", "base", "scale"}) {
    const auto copy = [&](std::initializer_list<std::string> names, const std::string& to) {
      for (const std::string& name : names) {
        if (m.tensors.has(name)) return m.tensors.copy(name, to + "_" + part + ".weight");
      }
    };
    for (int64_t i = 0; i < m.layer_count(); ++i) {
      for (const auto& [own, usual, to] : {std::tuple{"hc_attn_layer", "attn_hc", "hc_attn"},
                                           {"hc_mlp_layer", "ffn_hc", "hc_ffn"}}) {
        copy({layer_name(i, fmt::format("{}.hc_pre.hc_{}", own, part)),
              layer_name(i, fmt::format("hc_pre.{}.hc_{}", own, part)),
              layer_name(i, fmt::format("{}.{}", usual, part))},
             block_name(i, to));
      }
    }
    copy({"hc_head.hc_head_" + part, "hc_pre.hc_head.hc_head_" + part, "hc_head.hc_" + part},
         "output_hc");
  }
}

void map(CheckpointMap& m) {
  m.begin({.architecture = "hy_v4", .rope_width = "qk_rope_head_dim"});
  require_plain_rope(m);
  m.ends();
  for (int64_t i = 0; i < m.layer_count(); ++i) {
    for (const char* part : {"mlp.", "mlp.shared_experts."}) {
      m.tensors.also_named(layer_name(i, part) + "linear_gate.",
                           layer_name(i, part) + "gate_proj.");
    }
    for (const char* sinks : {"self_attn.learnable_sink_param", "self_attn.sinks"}) {
      m.tensors.copy(layer_name(i, sinks), block_name(i, "attn_sinks.weight"));
    }
  }
  const std::vector<bool> indexed = indexed_layers(m.config, m.layer_count());
  m.config.require(!indexed.empty() && indexed[0], "these indexer_types");
  m.layers({{"input_layernorm", "attn_norm"},
            {"post_attention_layernorm", "ffn_norm"},
            {"self_attn.linear_gate", "attn_gate"},
            {"self_attn.gate_proj", "attn_gate"}});
  // transformers turns the two halves of what RoPE turns, files have neighbours.
  map_latent(m, true, true);
  map_slot_index(m, 16, indexed, m.config.need_int("qk_rope_head_dim", 2, kMaxWidth));
  map_streams(m);
  m.feed_forward();
  m.config.assume("routed_scaling_factor", 2.827);
  map_deepseek_experts(m, DeepseekRouting::v3);
  if (const double limit = m.config.get_float("swiglu_limit", 10.0); limit > 0) {
    m.keys.set_floats("swiglu_clamp_exp", std::vector<float>(static_cast<size_t>(m.layer_count()),
                                                             static_cast<float>(limit)));
  }
  m.tensors.ignore_prefix("mtp_layers.");
}

}  // namespace

const ArchDef& hy_v4_arch() {
  static constexpr const char* kNames[] = {"hy_v4"};
  static constexpr const char* kCheckpoints[] = {"HYV4ForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
