// dots3-note, text only: multi-head latent attention with a gate for each head, in layers with a
// window of tokens and in layers whose queries see some thousands of tokens that an index chooses.
// Each kind has heads, widths and a RoPE of its own, and a norm of what keys have of RoPE. Experts
// as in DeepSeek V3. rednote-hilab 2026.
#include <cmath>
#include <tuple>
#include <utility>

#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_experts.h"
#include "engine/model/checkpoint_rope.h"
#include "engine/model/decoder.h"
#include "engine/model/latent_attention.h"
#include "engine/model/slot_index.h"

namespace infer {
namespace {

class Dots3Note final : public DecoderModel {
 public:
  explicit Dots3Note(HparamReader& r)
      : DecoderModel(r, op::Rope::Style::interleaved),
        sliding_(r.sliding_layers(params.layers, 1)),
        full_(r, params, layer_of(false)),
        windowed_(r, params, layer_of(true)) {
    const auto window = static_cast<int32_t>(r.need_int("attention.sliding_window", 1, INT32_MAX));
    full_.gate = AttentionBlock::Gate::of_heads;
    full_.inner_eps = params.eps;
    full_.heads = params.layer_heads[static_cast<size_t>(layer_of(false))];
    windowed_ = full_;
    windowed_.heads = params.layer_heads[static_cast<size_t>(layer_of(true))];
    windowed_.latent = r.need_int("attention.kv_lora_rank_swa", 1, kMaxWidth);
    windowed_.key = r.need_int("attention.key_length_mla_swa", full_.rope + 1, kMaxWidth);
    windowed_.value = r.need_int("attention.value_length_mla_swa", 1, kMaxWidth);
    windowed_.nope = windowed_.key - windowed_.rope;
    windowed_.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(windowed_.key)));
    windowed_.window = window;
    windowed_.turned = windowed_.keys_rope = 1;
    info_.ropes.push_back(unscaled(info_.ropes[0], r.get_float("rope.freq_base_swa", 10000.0)));
    for (KvLayerShape& shape : info_.kv_layers) {
      const bool slides = sliding_[static_cast<size_t>(shape.layer)];
      (slides ? windowed_ : full_).set_cache(shape);
      if (slides) shape.window = window;
    }
    experts.route = read_route(r, params, 2, true);
    experts.shared_width = r.get_int("expert_shared_count", 0, 0, 1024) * experts.width;
    read_index(r);
  }

  ValueId attend(ModelBuilder& m, ValueId x, int64_t layer) const override {
    const auto i = static_cast<size_t>(layer);
    if (sliding_[i]) return latent_block(m, x, layer, windowed_, attention[i].cache);
    return latent_block(m, x, layer, full_, attention[i].cache,
                        index_.caches.empty() ? nullptr : &index_);
  }

 private:
  /// The first layer of this kind, or 0.
  int64_t layer_of(bool slides) const {
    for (int64_t layer = 0; layer < params.layers; ++layer) {
      if (sliding_[static_cast<size_t>(layer)] == slides) return layer;
    }
    return 0;
  }

  /// Every layer without a window has an index.
  void read_index(HparamReader& r) {
    if (full_.q_latent == 0) {
      r.set_error(error(StatusCode::bad_file, "{}: expected attention.q_lora_rank above 0",
                        r.metadata().source()));
    }
    std::vector<bool> has = sliding_;
    has.flip();
    index_.style = op::Rope::Style::interleaved;
    index_.read(r, has, full_.rope, info_.kv_layers);
  }

  std::vector<bool> sliding_;  ///< by layer
  LatentBlock full_;
  LatentBlock windowed_;
  SlotIndex index_;
};

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  return DecoderModel::finish(std::make_unique<Dots3Note>(r), r);
}

/// What attention of a layer has.
struct Widths {
  int64_t heads = 1, latent = 1, nope = 1, value = 1;
  bool operator==(const Widths&) const = default;
};

/// Of a layer with a window: what "per_layer_config" says of it, or keys that begin with "swa_",
/// else as of the others.
Widths windowed_widths(CheckpointConfig& config, int64_t layer, const Widths& others) {
  const auto read = [&](const char* name, int64_t absent) {
    absent = config.get_int(fmt::format("swa_{}", name), absent, 1, kMaxWidth);
    return config.get_int(fmt::format("per_layer_config.{}.{}", layer, name), absent, 1, kMaxWidth);
  };
  return {read("num_attention_heads", others.heads), read("kv_lora_rank", others.latent),
          read("qk_nope_head_dim", others.nope), read("v_head_dim", others.value)};
}

std::vector<bool> windowed_layers(CheckpointMap& m) {
  std::vector<bool> windowed;
  const std::vector<std::string>* kinds = m.config.get_strings("layer_types");
  m.config.require(kinds != nullptr && std::ssize(*kinds) == m.layer_count(),
                   "this number of layer_types");
  m.config.require(m.config.get_bool("use_dsa", true), "use_dsa false");
  for (int64_t i = 0; i < m.layer_count(); ++i) {
    const bool given = kinds != nullptr && i < std::ssize(*kinds);
    const std::string kind = given ? (*kinds)[static_cast<size_t>(i)] : "";
    windowed.push_back(kind == "sliding_attention");
    const bool full = kind == "indexed_attention" ||
                      (kind == "full_attention" && m.config.has("swa_kv_lora_rank"));
    m.config.require(windowed.back() || full || !given, "these layer_types");
  }
  return windowed;
}

/// The tensors of a layer's attention. transformers multiplies what two norms make by a root of
/// widths; files have it in their weights.
void map_attention(CheckpointMap& m, int64_t layer, const Widths& widths, int64_t rank) {
  CheckpointTensors& t = m.tensors;
  const auto from = [&](const char* part) { return layer_name(layer, "self_attn.") + part; };
  const auto to = [&](const char* part) { return block_name(layer, part); };
  const auto width = static_cast<double>(m.config.need_int("hidden_size", 1, kMaxWidth));
  for (const auto& [norm, name, count] :
       {std::tuple{"q_a_layernorm.weight", "attn_q_a_norm.weight", rank},
        {"kv_a_layernorm.weight", "attn_kv_a_norm.weight", widths.latent}}) {
    std::vector<float> values = t.values(from(norm), count);
    const double root = std::sqrt(width / static_cast<double>(count));
    for (float& v : values) v = static_cast<float>(v * root);
    t.put_values(to(name), std::move(values));
  }
  const TensorView both =
      t.view(from("kv_b_proj.weight"), {widths.latent, widths.nope + widths.value, widths.heads});
  if (!t.ok()) return;
  t.put(to("attn_k_b.weight"), both.sliced(1, 0, widths.nope).swapped(0, 1));
  t.put(to("attn_v_b.weight"), both.sliced(1, widths.nope, widths.value));
}

/// The base of RoPE of one kind of layers.
double rope_base(CheckpointConfig& config, std::initializer_list<const char*> kinds,
                 const char* published, double absent) {
  for (const char* kind : kinds) {
    const std::string section = fmt::format("rope_parameters.{}.", kind);
    if (!config.has(section + "rope_theta")) continue;
    config.require(config.get_string(section + "rope_type", "default") == "default",
                   "RoPE scaling");
    return config.get_float(section + "rope_theta", absent);
  }
  config.require(!config.has("rope_scaling.type") && !config.has("rope_scaling.rope_type"),
                 "RoPE scaling");
  return config.get_float(published, absent);
}

void map(CheckpointMap& m) {
  const double base =
      rope_base(m.config, {"indexed_attention", "full_attention"}, "rope_theta", 8e7);
  m.config.replace("rope_theta", base);
  m.begin({.architecture = "dots3note", .rope_base = base, .rope_width = "qk_rope_head_dim"});
  m.keys.set_float("rope.freq_base_swa",
                   rope_base(m.config, {"sliding_attention"}, "swa_rope_theta", 50000.0));
  for (const char* gate : {"attention_gate_type", "swa_attention_gate_type"}) {
    m.config.require(m.config.get_string(gate, "headwise") == "headwise",
                     fmt::format("this {}", gate));
  }
  m.config.require(m.config.get_bool("apply_mla_qkv_lora_rescale", true),
                   "apply_mla_qkv_lora_rescale false");
  m.config.require(m.config.get_bool("k_rope_only_layernorm", true), "k_rope_only_layernorm false");
  const std::vector<bool> windowed = windowed_layers(m);
  const int64_t rope = m.config.need_int("qk_rope_head_dim", 2, kMaxWidth);
  const int64_t rank = m.config.need_int("q_lora_rank", 1, kMaxWidth);
  const Widths full{m.head_count(), m.config.need_int("kv_lora_rank", 1, kMaxWidth),
                    m.config.need_int("qk_nope_head_dim", 1, kMaxWidth),
                    m.config.need_int("v_head_dim", 1, kMaxWidth)};
  m.config.require(m.config.get_int("swa_q_lora_rank", rank, 1, kMaxWidth) == rank &&
                       m.config.get_int("swa_qk_rope_head_dim", rope, 1, kMaxWidth) == rope,
                   "another q_lora_rank or qk_rope_head_dim of layers with a window");
  m.ends();
  Widths sliding = full;
  std::vector<int64_t> heads;
  std::vector<bool> indexed = windowed;
  indexed.flip();
  bool first = true;
  for (int64_t i = 0; i < m.layer_count() && m.config.status().ok(); ++i) {
    Widths own = full;
    if (windowed[static_cast<size_t>(i)]) {
      own = windowed_widths(m.config, i, full);
      m.config.require(first || own == sliding, "layers with a window that differ");
      sliding = own;
      first = false;
    }
    heads.push_back(own.heads);
    map_attention(m, i, own, rank);
  }
  m.keys.set_ints("attention.head_count", heads);
  m.keys.set_int("attention.head_count_kv", 1);
  m.keys.set_int("attention.q_lora_rank", rank);
  m.keys.set_int("rope.dimension_count", rope);
  for (const auto& [widths, end] : {std::pair{full, ""}, {sliding, "_swa"}}) {
    const auto set = [&](const char* key, int64_t value) {
      m.keys.set_int(fmt::format("attention.{}{}", key, end), value);
    };
    set("kv_lora_rank", widths.latent);
    set("key_length", widths.latent + rope);
    set("value_length", widths.latent);
    set("key_length_mla", widths.nope + rope);
    set("value_length_mla", widths.value);
  }
  m.keys.set_int(
      "attention.sliding_window",
      m.config.get_int("sliding_window", m.config.get_int("sliding_window_size", 512, 1, kMaxWidth),
                       1, kMaxWidth));
  m.keys.set_flags("attention.sliding_window_pattern", windowed);
  m.layers({{"input_layernorm", "attn_norm"},
            {"post_attention_layernorm", "ffn_norm"},
            {"self_attn.q_a_proj", "attn_q_a"},
            {"self_attn.q_b_proj", "attn_q_b"},
            {"self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa"},
            {"self_attn.k_rope_only_layernorm", "attn_k_norm"},
            {"self_attn.g_proj", "attn_gate"},
            {"self_attn.o_proj", "attn_output"}});
  map_slot_index(m, 64, indexed);
  m.feed_forward();
  map_deepseek_experts(m, DeepseekRouting::v3);
  const int64_t width = m.config.need_int("moe_intermediate_size", 1, kMaxWidth);
  for (const char* key :
       {"shared_experts_intermediate_size", "moe_shared_expert_intermediate_size"}) {
    m.config.require(m.config.get_int(key, width, 1, kMaxWidth) == width,
                     fmt::format("this {}", key));
  }
  for (const char* part : {"mtp.", "vision_encoder.", "audio_encoder.", "audio_adapter."}) {
    m.tensors.ignore_prefix(part);
  }
  m.tensors.ignore_prefix(layer_name(m.layer_count(), ""));
}

}  // namespace

const ArchDef& dots3note_arch() {
  static constexpr const char* kNames[] = {"dots3note"};
  static constexpr const char* kCheckpoints[] = {
      "Dots3NoteForCausalLM", "Dots3NoteForConditionalGeneration", "Dots3NoteTextForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
