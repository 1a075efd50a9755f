#include "engine/jobs/synth_model.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "engine/weights/tokenizer_spec.h"

namespace infer {
namespace {

using Fill = SynthTensor::Fill;

/// Lists tensors; the first failure is kept.
class TensorList {
 public:
  TensorList(const SynthShape& shape, const TypeMix& types)
      : model_{shape.arch, shape.layers, shape.experts, shape.heads / shape.kv_heads},
        types_(types) {}

  void begin_layer(int64_t layer) { layer_ = layer; }
  /// A layer's matrix of the type that its part of a mix has.
  void block(std::string_view part, int64_t d0, int64_t d1, int64_t d2 = 1) {
    matrix(name(part, "weight"), types_.of_block(model_, part, layer_), d0, d1, d2);
  }
  void block_f32(std::string_view part, int64_t d0, int64_t d1) {
    matrix(name(part, "weight"), DType::f32, d0, d1);
  }
  void block_norm(std::string_view part, int64_t d0) { vector(name(part, "weight"), d0); }
  void block_norms(std::string_view part, int64_t d0, int64_t d1) {
    add({name(part, "weight"), {}, Fill::ones, 0.02f}, DType::f32, {d0, d1, 1});
  }
  void block_bias(std::string_view part, int64_t d0, int64_t d1 = 1) {
    add({name(part, "bias"), {}, Fill::normal, 0.02f}, DType::f32, {d0, d1, 1});
  }
  /// Of every head, or element of a state, a number around −1, under a name without an ending.
  void block_decays(std::string_view part, int64_t d0, int64_t d1) {
    add({fmt::format("blk.{}.{}", layer_, part), {}, Fill::decays, 0.2f}, DType::f32, {d0, d1, 1});
  }
  void block_sinks(int64_t heads) {
    add({name("attn_sinks", "weight"), {}, Fill::normal, 1.0f}, DType::f32, {heads, 1, 1});
  }
  /// Of each token the experts that it takes.
  void block_table(std::string_view part, int64_t used, int64_t tokens) {
    add({name(part, "weight"), {}, Fill::experts, 0}, DType::i32, {used, tokens, 1});
  }
  void matrix(std::string name, DType type, int64_t d0, int64_t d1, int64_t d2 = 1) {
    normal(std::move(name), type, 1 / std::sqrt(static_cast<float>(d0)), d0, d1, d2);
  }
  void normal(std::string name, DType type, float deviation, int64_t d0, int64_t d1,
              int64_t d2 = 1) {
    add({std::move(name), {}, Fill::normal, deviation}, fitting_type(type, d0), {d0, d1, d2});
  }
  void vector(std::string name, int64_t d0, Fill fill = Fill::ones) {
    add({std::move(name), {}, fill, 0.02f}, DType::f32, {d0, 1, 1});
  }
  Result<std::vector<SynthTensor>> take() {
    if (!status_.ok()) return tl::unexpected(status_);
    return std::move(tensors_);
  }

 private:
  std::string name(std::string_view part, std::string_view kind) const {
    return fmt::format("blk.{}.{}.{}", layer_, part, kind);
  }
  void add(SynthTensor tensor, DType type, const std::array<int64_t, 3>& shape) {
    Result<TensorDesc> desc = make_tensor(type, shape);
    if (!desc) {
      if (status_.ok()) status_ = std::move(desc).error();
      return;
    }
    tensor.desc = *desc;
    tensors_.push_back(std::move(tensor));
  }

  MixModel model_;
  const TypeMix& types_;
  int64_t layer_ = 0;
  std::vector<SynthTensor> tensors_;
  Status status_;
};

void add_attention(const SynthShape& s, int64_t layer, TensorList& list) {
  const SynthArch& arch = s.architecture();
  const int64_t head = s.head_size(layer);
  const bool shares = layer < s.layers && layer >= s.layers - s.window.shared;
  const int64_t q = s.heads * head;
  const int64_t kv = s.kv_heads * head;
  if (arch.fused_qkv) {
    list.block("attn_qkv", s.embedding, q + 2 * kv);
  } else {
    list.block("attn_q", s.embedding, arch.gated_attention ? 2 * q : q);
    if (!shares) {
      list.block("attn_k", s.embedding, kv);
      list.block("attn_v", s.embedding, kv);
    }
  }
  list.block("attn_output", q, s.embedding);
  if (arch.gate_apart) list.block("attn_gate", s.embedding, q);
  if (arch.qkv_bias) {
    list.block_bias("attn_q", q);
    list.block_bias("attn_k", kv);
    list.block_bias("attn_v", kv);
  }
  if (arch.output_bias) list.block_bias("attn_output", s.embedding);
  if (arch.sinks) list.block_sinks(s.heads);
  if (arch.qk_norm != SynthArch::QkNorm::none) {
    const bool whole = arch.qk_norm == SynthArch::QkNorm::whole;
    const bool each = arch.qk_norm == SynthArch::QkNorm::each_head;
    list.block_norms("attn_q_norm", whole ? q : head, each ? s.heads : 1);
    if (!shares) list.block_norms("attn_k_norm", whole ? kv : head, each ? s.kv_heads : 1);
  }
  if (s.latent.index_block > 0 && layer >= s.dense_layers) {
    list.block_f32("indexer.q_proj", s.embedding, s.kv_heads * s.latent.index_key);
    list.block_f32("indexer.k_proj", s.embedding, s.latent.index_key);
    for (const char* norm : {"indexer.q_norm", "indexer.k_norm"}) {
      list.block_norm(norm, s.latent.index_key);
    }
  }
}

void add_latent_attention(const SynthShape& s, TensorList& list) {
  const SynthLatent& a = s.latent;
  const int64_t queries = s.heads * (a.nope + a.rope);
  if (a.queries > 0) {
    list.block("attn_q_a", s.embedding, a.queries);
    list.block_norm("attn_q_a_norm", a.queries);
    list.block("attn_q_b", a.queries, queries);
  } else {
    list.block("attn_q", s.embedding, queries);
  }
  list.block("attn_kv_a_mqa", s.embedding, a.latent + a.rope);
  list.block_norm("attn_kv_a_norm", a.latent);
  list.block("attn_k_b", a.nope, a.latent, s.heads);
  list.block("attn_v_b", a.latent, a.value, s.heads);
  list.block("attn_output", s.heads * a.value, s.embedding);
  if (s.architecture().head_gates) list.block("attn_gate", s.embedding, s.heads);
  if (a.index_count == 0) return;
  list.block("indexer.attn_q_b", a.queries, a.index_heads * a.index_key);
  list.block("indexer.attn_k", s.embedding, a.index_key);
  list.block_norm("indexer.k_norm", a.index_key);
  list.block_bias("indexer.k_norm", a.index_key);
  list.block("indexer.proj", s.embedding, a.index_heads);
  if (a.index_block == 0) return;
  list.block("indexer_compressor_gate", s.embedding, a.index_key);
  list.block_f32("indexer_compressor_ape", a.index_key, a.index_block);
}

/// Keys of blocks, of the attention or of its index.
void add_compressor(const SynthShape& s, const std::string& prefix, int64_t key, int64_t block,
                    TensorList& list) {
  const int64_t width = block == SynthPooled::kShort ? 2 * key : key;
  list.block(prefix + "kv", s.embedding, width);
  list.block(prefix + "gate", s.embedding, width);
  list.block_f32(prefix + "ape", width, block);
  list.block_norm(prefix + "norm", key);
}

void add_pooled_attention(const SynthShape& s, int64_t layer, TensorList& list) {
  const SynthPooled& p = s.pooled;
  const int64_t head = s.head_size();
  list.block("attn_q_a", s.embedding, p.queries);
  list.block_norm("attn_q_a_norm", p.queries);
  list.block("attn_q_b", p.queries, s.heads * head);
  list.block("attn_kv", s.embedding, head);
  list.block_norm("attn_kv_norm", head);
  list.block_sinks(s.heads);
  const int64_t groups = s.output_groups();
  list.block("attn_output_a", s.heads * head / groups, p.output, groups);
  list.block("attn_output_b", groups * p.output, s.embedding);
  const int64_t block = p.block(layer);
  if (block == 0) return;
  add_compressor(s, "attn_compressor_", head, block, list);
  if (block != SynthPooled::kShort) return;
  add_compressor(s, "indexer_compressor_", p.index_key, block, list);
  list.block("indexer.attn_q_b", p.queries, p.index_heads * p.index_key);
  list.block("indexer.proj", s.embedding, p.index_heads);
}

/// How the streams meet the parts of a layer.
void add_streams(const SynthShape& s, TensorList& list) {
  const int64_t n = s.streams();
  for (const std::string part : {"hc_attn_", "hc_ffn_"}) {
    list.block_f32(part + "fn", n * s.embedding, n * (n + 2));
    list.block_norm(part + "base", n * (n + 2));
    list.block_norm(part + "scale", 3);
  }
}

void add_feed_forward(const SynthShape& s, int64_t width, const std::string& suffix,
                      TensorList& list) {
  const bool fused = s.architecture().fused_gate_up;
  if (!fused && !s.architecture().plain_experts)
    list.block("ffn_gate" + suffix, s.embedding, width);
  list.block("ffn_up" + suffix, s.embedding, fused ? 2 * width : width);
  list.block("ffn_down" + suffix, width, s.embedding);
}

void add_experts(const SynthShape& s, TensorList& list) {
  const int64_t width = s.expert_width();
  list.block_f32("ffn_gate_inp", s.embedding, s.experts);
  if (s.architecture().plain_experts) {
    list.block_bias("exp_probs_b", s.experts);
  } else {
    list.block("ffn_gate_exps", s.embedding, width, s.experts);
  }
  list.block("ffn_up_exps", s.embedding, width, s.experts);
  list.block("ffn_down_exps", width, s.embedding, s.experts);
  if (s.architecture().expert_bias) {
    list.block_bias("ffn_gate_inp", s.experts);
    list.block_bias("ffn_gate_exps", width, s.experts);
    list.block_bias("ffn_up_exps", width, s.experts);
    list.block_bias("ffn_down_exps", s.embedding, s.experts);
  }
  if (s.shared_experts > 0) add_feed_forward(s, s.shared_experts * width, "_shexp", list);
  if (s.architecture().gated_shared_expert) list.block_f32("ffn_gate_inp_shexp", s.embedding, 1);
}

void add_delta_net(const SynthShape& s, TensorList& list) {
  const SynthRecurrent& r = s.recurrent;
  list.block("attn_qkv", s.embedding, r.channels());
  list.block("attn_gate", s.embedding, r.inner());
  list.block("ssm_beta", s.embedding, r.heads);
  list.block("ssm_alpha", s.embedding, r.heads);
  list.block_f32("ssm_conv1d", r.taps, r.channels());
  list.block_decays("ssm_a", r.heads, 1);
  list.block_bias("ssm_dt", r.heads);
  list.block_norm("ssm_norm", r.head);
  list.block("ssm_out", r.inner(), s.embedding);
}

void add_kimi_delta(const SynthShape& s, TensorList& list) {
  const int64_t head = s.recurrent.head;
  const int64_t width = s.heads * head;
  for (const char* part : {"q", "k", "v"}) {
    list.block(std::string("attn_") + part, s.embedding, width);
    list.block_f32(std::string("ssm_conv1d_") + part, s.recurrent.taps, width);
  }
  for (const char* part : {"f", "g"}) {
    const std::string name = std::string("ssm_") + part;
    const bool narrow = s.architecture().narrow_gates;
    list.block(name + "_a", s.embedding, narrow ? head : width);
    if (narrow) list.block(name + "_b", head, width);
  }
  list.block("ssm_beta", s.embedding, s.heads);
  const bool flat = s.architecture().flat_decays;
  list.block_decays("ssm_a", flat ? s.heads : 1, flat ? 1 : s.heads);
  list.block_bias("ssm_dt", width);
  list.block_norm("ssm_norm", head);
  list.block("attn_output", width, s.embedding);
}

void add_lightning(const SynthShape& s, TensorList& list) {
  const int64_t width = s.heads * s.head_size();
  list.block("attn_qkv", s.embedding, 3 * width);
  list.block("attn_gate", s.embedding, width);
  list.block_norm("attn_norm_2", width);
  list.block("attn_output", width, s.embedding);
}

void add_mamba2(const SynthShape& s, TensorList& list) {
  const SynthRecurrent& r = s.recurrent;
  list.block("ssm_in", s.embedding, r.inner() + r.channels() + r.heads);
  list.block_f32("ssm_conv1d", r.taps, r.channels());
  list.block_bias("ssm_conv1d", r.channels());
  list.block_decays("ssm_a", 1, r.heads);
  list.block_decays("ssm_d", 1, r.heads);
  list.block_bias("ssm_dt", r.heads);
  list.block_f32("ssm_norm", r.inner() / r.groups, r.groups);
  list.block("ssm_out", r.inner(), s.embedding);
}

/// `by_heads`: as of PLaMo 2, whose steps and decays are those of heads.
void add_mamba(const SynthShape& s, bool by_heads, TensorList& list) {
  const SynthRecurrent& r = s.recurrent;
  const int64_t rank = by_heads ? std::max<int64_t>(64, s.embedding / 16) : r.heads;
  const int64_t steps = by_heads ? r.heads : r.inner();
  list.block("ssm_in", s.embedding, 2 * r.inner());
  list.block_f32("ssm_conv1d", r.taps, r.inner());
  if (!by_heads) list.block_bias("ssm_conv1d", r.inner());
  list.block("ssm_x", r.inner(), rank + 2 * r.state);
  if (s.architecture().step_norms) {
    list.block_norm("ssm_dt_norm", rank);
    list.block_norm("ssm_b_norm", r.state);
    list.block_norm("ssm_c_norm", r.state);
  }
  list.block("ssm_dt", rank, steps);
  list.block_bias("ssm_dt", steps);
  list.block_decays("ssm_a", by_heads ? steps : r.state, by_heads ? 1 : steps);
  list.block_decays("ssm_d", steps, 1);
  list.block("ssm_out", r.inner(), s.embedding);
}

void add_short_conv(const SynthShape& s, TensorList& list) {
  list.block("shortconv.in_proj", s.embedding, 3 * s.embedding);
  list.block_f32("shortconv.conv", s.recurrent.taps, s.embedding);
  list.block("shortconv.out_proj", s.embedding, s.embedding);
}

/// What a layer makes of the token's embedding that is its own.
void add_token_part(const SynthShape& s, TensorList& list) {
  list.block("inp_gate", s.embedding, s.window.token);
  list.block("proj", s.window.token, s.embedding);
  list.block_norm("post_norm", s.embedding);
}

void add_mixer(const SynthShape& s, int64_t layer, TensorList& list) {
  switch (s.kind(layer)) {
    case 'D': return add_delta_net(s, list);
    case 'K': return add_kimi_delta(s, list);
    case 'L': return add_lightning(s, list);
    case 'M': return add_mamba2(s, list);
    case 'S': return add_mamba(s, false, list);
    case 'P': return add_mamba(s, true, list);
    case 'C': return add_short_conv(s, list);
    case 'E': return add_experts(s, list);
    default:
      if (s.pooled.queries > 0) return add_pooled_attention(s, layer, list);
      return s.latent.latent > 0 ? add_latent_attention(s, list) : add_attention(s, layer, list);
  }
}

}  // namespace

Result<std::vector<SynthTensor>> synth_tensors(const SynthShape& s, const TypeMix& types) {
  const SynthArch& arch = s.architecture();
  TensorList list(s, types);
  list.normal("token_embd.weight", s.tied ? types.of_output() : types.of_embedding(), 0.02f,
              s.embedding, s.tokens);
  if (const int64_t token = s.window.token; token > 0) {
    list.normal("per_layer_token_embd.weight", types.of_embedding(), 0.02f, token * s.layers,
                s.tokens);
    list.matrix("per_layer_model_proj.weight", DType::bf16, s.embedding, token * s.layers);
    list.vector("per_layer_proj_norm.weight", token);
  }
  if (arch.positions)
    list.normal("position_embd.weight", DType::f32, 0.02f, s.embedding, s.context);
  if (arch.embedding_norm) list.vector("token_embd_norm.weight", s.embedding);
  if (s.rope_factor > 0) {
    list.vector("rope_freqs.weight", s.rope_size() / 2, Fill::rope_factors);
  }
  if (s.long_rope) {
    list.vector("rope_factors_short.weight", s.rope_size() / 2);
    list.vector("rope_factors_long.weight", s.rope_size() / 2);
  }
  for (int64_t layer = 0; layer < s.layers + (s.next_token ? 1 : 0); ++layer) {
    list.begin_layer(layer);
    if (arch.pre_norms) list.block_norm("attn_norm", s.embedding);
    if (layer < s.layers) {
      add_mixer(s, layer, list);
    } else {
      add_attention(s, layer, list);
      list.block("nextn.eh_proj", 2 * s.embedding, s.embedding);
      for (const char* norm : {"enorm", "hnorm", "shared_head_norm"}) {
        list.block_norm(std::string("nextn.") + norm, s.embedding);
      }
    }
    if (arch.one_part) continue;
    if (arch.sub_norms) {
      list.block_norm("attn_sub_norm", s.heads * s.head_size());
      list.block_norm("ffn_sub_norm", s.feed_forward);
    }
    if (arch.post_norms) list.block_norm(arch.post_attention_norm, s.embedding);
    if (arch.pre_norms && arch.ffn_norm != nullptr) list.block_norm(arch.ffn_norm, s.embedding);
    s.has_experts(layer) ? add_experts(s, list) : add_feed_forward(s, s.feed_forward, "", list);
    if (arch.feed_forward_beside) add_feed_forward(s, s.feed_forward, "", list);
    if (arch.experts_beside) {
      list.block_norm("ffn_norm_exps", s.embedding);
      add_feed_forward(s, s.embedding, "", list);
    }
    if (arch.post_norms) list.block_norm("post_ffw_norm", s.embedding);
    if (s.window.token > 0) add_token_part(s, list);
    if (s.streams() > 0) add_streams(s, list);
    if (s.pooled.queries == 0) continue;
    if (layer < s.hashed_layers()) {
      list.block_table("ffn_gate_tid2eid", s.experts_used, s.tokens);
    }
  }
  if (*arch.output_norm != 0) list.vector(std::string(arch.output_norm) + ".weight", s.embedding);
  if (const int64_t n = s.pooled.streams; s.pooled.queries > 0) {
    list.matrix("output_hc_fn.weight", DType::f32, n * s.embedding, n);
    list.vector("output_hc_base.weight", n);
    list.vector("output_hc_scale.weight", 1);
  }
  if (!s.tied) list.matrix("output.weight", types.of_output(), s.embedding, s.tokens);
  return list.take();
}

std::vector<float> rope_factors(const SynthShape& s) {
  // Frequencies whose waves are longer than the original context are slowed by the factor, short
  // ones are kept, and those between are blended (Dubey et al. 2024).
  constexpr double kLow = 1;
  constexpr double kHigh = 4;
  constexpr double kOriginal = 8192;
  std::vector<float> factors;
  for (int64_t i = 0; i < s.head_size() / 2; ++i) {
    const double exponent = 2.0 * static_cast<double>(i) / static_cast<double>(s.head_size());
    const double wave = 2 * std::numbers::pi * std::pow(static_cast<double>(s.rope_base), exponent);
    const double kept = std::clamp((kOriginal / wave - kLow) / (kHigh - kLow), 0.0, 1.0);
    factors.push_back(static_cast<float>(1 / ((1 - kept) / s.rope_factor + kept)));
  }
  return factors;
}

namespace {

/// What depends on the kind of layer.
void add_layer_metadata(const SynthShape& s, Metadata& metadata) {
  const auto set = [&](const char* key, MetaValue value) {
    metadata.set(fmt::format("{}.{}", s.arch, key), std::move(value));
  };
  const SynthRecurrent& r = s.recurrent;
  // Delta nets and lightning attention are told by a period, not by their heads.
  const bool by_heads = !r.layers.empty() && r.layers.find_first_of("DL") == std::string_view::npos;
  std::vector<uint32_t> kv_heads;
  std::vector<uint32_t> widths;
  for (int64_t layer = 0; layer < s.layers; ++layer) {
    kv_heads.push_back(s.kind(layer) == '*' ? static_cast<uint32_t>(s.kv_heads) : 0);
    widths.push_back(s.kind(layer) == 'E' ? static_cast<uint32_t>(s.expert_width()) : 0);
  }
  if (by_heads) {
    set("attention.head_count_kv", kv_heads);
  } else {
    set("attention.head_count_kv", static_cast<uint32_t>(s.kv_heads));
  }
  if (s.architecture().one_part) {
    set("feed_forward_length", widths);
  } else {
    const int64_t times = s.architecture().doubled_width ? 2 : 1;
    set("feed_forward_length", static_cast<uint32_t>(times * s.feed_forward));
  }
  if (r.layers.find('C') != std::string_view::npos) {
    set("shortconv.l_cache", static_cast<uint32_t>(r.taps));
  }
  if (r.layers.find('K') != std::string_view::npos) {
    set("kda.head_dim", static_cast<uint32_t>(r.head));
    set("ssm.conv_kernel", static_cast<uint32_t>(r.taps));
  }
  if (r.heads == 0) return;
  set("ssm.conv_kernel", static_cast<uint32_t>(r.taps));
  set("ssm.state_size", static_cast<uint32_t>(r.state));
  set("ssm.group_count", static_cast<uint32_t>(r.groups));
  set("ssm.time_step_rank", static_cast<uint32_t>(r.heads));
  set("ssm.inner_size", static_cast<uint32_t>(r.inner()));
}

}  // namespace

void add_shape_metadata(const SynthShape& s, const TypeMix& types, Metadata& metadata) {
  const auto set = [&](const char* key, MetaValue value) {
    metadata.set(fmt::format("{}.{}", s.arch, key), std::move(value));
  };
  const auto number = [&](const char* key, int64_t value) {
    set(key, static_cast<uint32_t>(value));
  };
  metadata.set("general.architecture", std::string(s.arch));
  metadata.set("general.name", "synthetic " + s.name);
  metadata.set("general.quantization_version", uint32_t{2});
  if (const int32_t file_type = types.file_type(); file_type >= 0) {
    metadata.set("general.file_type", static_cast<uint32_t>(file_type));
  }
  number("vocab_size", s.tokens);
  number("context_length", s.context);
  number("embedding_length", s.embedding);
  number("block_count", s.layers + (s.next_token ? 1 : 0));
  if (s.next_token) number("nextn_predict_layers", 1);
  number("attention.head_count", s.heads);
  add_layer_metadata(s, metadata);
  number("rope.dimension_count", s.rope_size());
  if (const SynthLatent& a = s.latent; a.latent > 0) {
    number("attention.kv_lora_rank", a.latent);
    if (a.queries > 0) number("attention.q_lora_rank", a.queries);
    // What is cached, then what a head has.
    number("attention.key_length", a.latent + a.rope);
    number("attention.value_length", a.latent);
    number("attention.key_length_mla", a.nope + a.rope);
    number("attention.value_length_mla", a.value);
    if (a.index_count > 0) {
      number("attention.indexer.head_count", a.index_heads);
      number("attention.indexer.key_length", a.index_key);
      number("attention.indexer.top_k", a.index_count);
      if (a.index_block > 0) number("attention.indexer.kpool", a.index_block);
    }
    if (a.streams > 0) number("hyper_connection.count", a.streams);
  } else if (s.head_dim != 0) {
    number("attention.key_length", s.head_dim);
    number("attention.value_length", s.head_dim);
  }
  if (const SynthPooled& p = s.pooled; p.queries > 0) {
    std::vector<int32_t> blocks;
    for (int64_t layer = 0; layer < s.layers; ++layer) {
      blocks.push_back(static_cast<int32_t>(p.block(layer)));
    }
    set("attention.compress_ratios", std::move(blocks));
    number("attention.q_lora_rank", p.queries);
    number("attention.sliding_window", p.window);
    number("attention.output_group_count", s.output_groups());
    number("attention.output_lora_rank", p.output);
    number("attention.indexer.head_count", p.index_heads);
    number("attention.indexer.key_length", p.index_key);
    number("attention.indexer.top_k", p.index_count);
    number("hyper_connection.count", p.streams);
    number("hash_layer_count", s.hashed_layers());
  }
  if (const SynthLatent& a = s.latent; a.index_block > 0 && a.latent == 0) {
    number("attention.indexer.head_count", s.kv_heads);
    number("attention.indexer.key_length", a.index_key);
    number("attention.indexer.top_k", a.index_count);
    number("attention.indexer.block_size", a.index_block);
    number("attention.indexer.local_blocks", 1);
  }
  if (const SynthWindow& w = s.window; w.period > 0) {
    number("attention.key_length_swa", w.head);
    number("attention.value_length_swa", w.head);
    number("rope.dimension_count_swa", w.head);
    number("attention.shared_kv_layers", w.shared);
    number("embedding_length_per_layer_input", w.token);
  }
  if (s.experts > 0) {
    number("expert_count", s.experts);
    number("expert_used_count", s.experts_used);
    if (s.expert_feed_forward != 0) number("expert_feed_forward_length", s.expert_feed_forward);
    if (s.shared_experts != 0) {
      number("expert_shared_count", s.shared_experts);
      number("expert_shared_feed_forward_length", s.shared_experts * s.expert_width());
    }
    if (s.dense_layers != 0) number("leading_dense_block_count", s.dense_layers);
  }
  set("attention.layer_norm_rms_epsilon", s.architecture().eps);
  set("rope.freq_base", s.rope_base);
  for (const auto& [key, value] : s.keys) set(key, value);
}

void add_made_up_vocabulary(int64_t count, Metadata& metadata) {
  std::vector<std::string> tokens{"<unk>", "<s>", "</s>"};
  std::vector<float> scores{0, 0, 0};
  std::vector<int32_t> types{static_cast<int32_t>(TokenType::unknown),
                             static_cast<int32_t>(TokenType::control),
                             static_cast<int32_t>(TokenType::control)};
  const auto add = [&](std::string text, float score, TokenType type) {
    if (static_cast<int64_t>(tokens.size()) == count) return;
    tokens.push_back(std::move(text));
    scores.push_back(score);
    types.push_back(static_cast<int32_t>(type));
  };
  for (int byte = 0; byte < 256; ++byte) {
    add(fmt::format("<0x{:02X}>", byte), 0, TokenType::byte);
  }
  // "▁", then a, ▁a, b, ▁b, …, z, ▁z, aa, ▁aa, …: shorter words score higher.
  add("\u2581", -1, TokenType::normal);
  for (int64_t i = 1; static_cast<int64_t>(tokens.size()) < count; ++i) {
    std::string word;
    for (int64_t rest = i; rest > 0; rest = (rest - 1) / 26) {
      word.insert(word.begin(), static_cast<char>('a' + (rest - 1) % 26));
    }
    const auto score = static_cast<float>(-1 - i);
    add(word, score, TokenType::normal);
    add("\u2581" + word, score, TokenType::normal);
  }
  metadata.set("tokenizer.ggml.model", std::string("llama"));
  metadata.set("tokenizer.ggml.tokens", std::move(tokens));
  metadata.set("tokenizer.ggml.scores", std::move(scores));
  metadata.set("tokenizer.ggml.token_type", std::move(types));
  metadata.set("tokenizer.ggml.unknown_token_id", uint32_t{0});
  metadata.set("tokenizer.ggml.bos_token_id", uint32_t{1});
  metadata.set("tokenizer.ggml.eos_token_id", uint32_t{2});
}

}  // namespace infer
