// HRM-Text: two stacks of layers that are gone through in turns, several rounds of the low one and
// then the high one, each time with keys and values of their own. A stack takes the sum of what
// both made last. RMSNorms without weights, half-split RoPE, a gate on what heads make. Sapient
// Intelligence 2026.
#include <algorithm>

#include "engine/model/checkpoint.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

constexpr int64_t kMostLayers = 1024;

class HrmText final : public DecoderModel {
 public:
  explicit HrmText(HparamReader& r)
      : DecoderModel(r, op::Rope::Style::half_split),
        stack_(r.need_int("hrm.layers_per_stack", 1, kMostLayers)),
        high_(r.need_int("hrm.h_cycles", 1, kMostLayers)),
        low_(r.need_int("hrm.l_cycles", 1, kMostLayers)) {
    embedding_scale = static_cast<float>(r.get_float("embedding_scale", 1.0));
    // Files count a layer for each of the times that one is gone through, but have its tensors
    // once.
    if (stack_ * high_ * (low_ + 1) != params.layers || 2 * stack_ > params.layers) {
      r.set_error(error(StatusCode::bad_file,
                        "{}: block_count: expected {} rounds of {} layers, found {}",
                        r.metadata().source(), high_ * (low_ + 1), stack_, params.layers));
      return;
    }
    for (int64_t i = 0; i < params.layers; ++i) {
      const bool high = i / stack_ % (low_ + 1) == low_;
      info_.kv_layers[static_cast<size_t>(i)].layer =
          static_cast<int32_t>(i % stack_ + (high ? stack_ : 0));
    }
    params.layers = info_.layers = 2 * stack_;
    for (AttentionBlock& block : attention) block.gate = AttentionBlock::Gate::apart;
  }

  void build(ModelBuilder& m) const override {
    ValueId high = m.embed_tokens(embedding_scale);
    // The vector in every row.
    const ValueId ones = m.g.add(op::Scale{0.0f, 1.0f, 1.0f}, {high});
    ValueId low = m.g.add(op::Multiply{}, {ones, m.weight("hrm.z_l_init", {params.embedding})});
    int64_t round = 0;
    for (int64_t h = 0; h < high_; ++h) {
      for (int64_t l = 0; l < low_; ++l) low = go_through(m, m.add(high, low), 0, round++);
      high = go_through(m, m.add(high, low), stack_, round++);
    }
    if (m.embeds()) return m.output_embedding(high);
    m.g.output(m.output_logits(high), "logits");
  }

 private:
  /// The layers from `first` on, and a norm; the last round computes only the rows whose logits are
  /// wanted.
  ValueId go_through(ModelBuilder& m, ValueId x, int64_t first, int64_t round) const {
    const auto normed = [&] { return m.g.add(op::RmsNorm{params.eps}, {x, kNoValue}); };
    for (int64_t i = 0; i < stack_; ++i) {
      const int64_t layer = first + i;
      AttentionBlock block = attention[static_cast<size_t>(layer)];
      block.cache = static_cast<int32_t>(round * stack_ + i);
      m.g.set_unit({UnitKind::attention, static_cast<int32_t>(layer)});
      ValueId mixed = attention_block(m, normed(), block);
      if (round + 1 == high_ * (low_ + 1) && i + 1 == stack_) {
        mixed = m.select_outputs(mixed);
        x = m.select_outputs(x);
      }
      x = m.add(x, mixed);
      m.g.set_unit({UnitKind::feed_forward, static_cast<int32_t>(layer)});
      x = m.add(x, feed_forward(m, normed(), layer));
    }
    return normed();
  }

  int64_t stack_;       ///< layers of a stack
  int64_t high_, low_;  ///< rounds of the high one, and of the low one for each of these
};

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  return DecoderModel::finish(std::make_unique<HrmText>(r), r);
}

void map(CheckpointMap& m) {
  // Some configurations count the layers of a stack, others those of all rounds.
  const int64_t stack =
      m.config.get_int("num_layers_per_stack",
                       m.config.need_int("num_hidden_layers", 1, kMostLayers), 1, kMostLayers);
  const int64_t high = m.config.get_int("H_cycles", 2, 1, kMostLayers);
  const int64_t low = m.config.get_int("L_cycles", 3, 1, kMostLayers);
  m.config.replace("num_hidden_layers", stack * high * (low + 1));
  m.config.assume("head_dim", int64_t{128});
  m.begin({.architecture = "hrm_text"});
  m.keys.set_int("hrm.layers_per_stack", stack);
  m.keys.set_int("hrm.h_cycles", high);
  m.keys.set_int("hrm.l_cycles", low);
  m.keys.set_bool("hrm.prefix_lm", m.config.get_bool("prefix_lm", true));
  const double spread = m.config.get_float("initializer_range", 0.02);
  m.keys.set_float("embedding_scale", m.config.get_float("embedding_scale", 1 / spread));
  for (int64_t i = 0; i < 2 * stack; ++i) {
    const std::string from = (i < stack ? "L_module." : "H_module.") + layer_name(i % stack, "");
    m.tensors.also_named(from, layer_name(i, ""));
    m.tensors.also_named(from + "attn.", layer_name(i, "self_attn."));
  }
  m.ends();
  m.tensors.copy("z_L_init", "hrm.z_l_init");
  const int64_t rows = m.head_count() * m.config.need_int("head_dim", 1, kMaxWidth);
  const int64_t inner = m.config.need_int("intermediate_size", 1, kMaxWidth);
  for (int64_t i = 0; i < 2 * stack; ++i) {
    const std::string at = layer_name(i, "");
    const auto to = [&](const char* part) { return block_name(i, part); };
    m.tensors.split_rows(at + "self_attn.gqkv_proj.weight", {{to("attn_gate.weight"), rows},
                                                             {to("attn_q.weight"), rows},
                                                             {to("attn_k.weight"), rows},
                                                             {to("attn_v.weight"), rows}});
    m.tensors.split_rows(at + "mlp.gate_up_proj.weight",
                         {{to("ffn_gate.weight"), inner}, {to("ffn_up.weight"), inner}});
  }
  m.layers({{"self_attn.gate_proj", "attn_gate"}});
  m.attention();
  m.feed_forward();
}

}  // namespace

const ArchDef& hrm_text_arch() {
  static constexpr const char* kNames[] = {"hrm_text"};
  static constexpr const char* kCheckpoints[] = {"HrmTextForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
