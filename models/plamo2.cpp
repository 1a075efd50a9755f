// PLaMo 2 and 3: fused q/k/v with an RMSNorm on every q and k head, half-split RoPE; norms before
// and after each part. Of PLaMo 2 most layers are a mixer like Mamba's whose channels decay by
// heads; of PLaMo 3 all but every few layers have a sliding window with a RoPE of its own.
// Preferred Networks 2025.
#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "engine/core/portable_math.h"
#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_rope.h"
#include "engine/model/checkpoint_window.h"
#include "engine/model/decoder.h"
#include "engine/model/mamba.h"

namespace infer {
namespace {

constexpr int64_t kPeriod = 8;  // of the layers that see everything
constexpr double kLocalBase = 10000.0;

constexpr int64_t kLeastRank = 64;  // of what steps are made of

int64_t rank_of(int64_t embedding) { return std::max(kLeastRank, embedding / 16); }

/// Layers without key-value heads have the mixer.
class Plamo2 final : public DecoderModel {
 public:
  explicit Plamo2(HparamReader& r)
      : DecoderModel(r, op::Rope::Style::half_split, true),
        mamba_(r, params.eps),
        heads_(std::exchange(mamba_.rank, rank_of(params.embedding))) {
    post_norms = true;
    if (mamba_.inner % heads_ != 0) {
      r.set_error(error(StatusCode::bad_file, "{}: {} ssm heads do not divide a width of {}",
                        r.metadata().source(), heads_, mamba_.inner));
      heads_ = 1;
    }
    const int64_t state =
        mamba_.before_scan() + scan_state(heads_, mamba_.state, mamba_.inner / heads_);
    for (int64_t layer = 0; layer < params.layers; ++layer) {
      attention[static_cast<size_t>(layer)].qk_norm = AttentionBlock::QkNorm::each_head;
      if (!attends(layer)) add_state(layer, state);
    }
  }

  ValueId attend(ModelBuilder& m, ValueId x, int64_t layer) const override {
    if (attends(layer)) return DecoderModel::attend(m, x, layer);
    GraphBuilder& g = m.g;
    const auto name = [&](const char* part) { return block_name(layer, part); };
    const int32_t cache = states[static_cast<size_t>(layer)];
    const int64_t head = mamba_.inner / heads_;
    // Of each head the gate, then the values, which the convolution takes side by side.
    const ValueId all = g.split_heads(m.linear(x, name("ssm_in"), 2 * mamba_.inner), heads_);
    const ValueId values = g.add(op::Scale{}, {g.slice(all, head, head)});
    const ValueId mixed =
        m.causal_conv(g.merge_heads(values), name("ssm_conv1d"), mamba_.taps, cache, true);
    const MambaParts parts = mamba_parts(m, mixed, layer, mamba_, true);
    const ValueId scanned =
        g.add(op::SsmScan{cache, mamba_.before_scan()},
              {g.split_heads(mixed, heads_), parts.write, parts.read,
               m.product(parts.low, name("ssm_dt") + ".weight", heads_),
               m.weight(name("ssm_a"), {heads_}), m.weight(name("ssm_dt.bias"), {heads_}),
               m.weight(name("ssm_d"), {heads_}), g.input(StepInput::slots),
               g.input(StepInput::sequences)});
    const ValueId out = g.merge_heads(g.add(op::Glu{}, {g.slice(all, 0, head), scanned}));
    return m.linear(out, name("ssm_out"), params.embedding);
  }

 private:
  MambaBlock mamba_;
  int64_t heads_;
};

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  if (r.architecture() == "plamo2") {
    return DecoderModel::finish(std::make_unique<Plamo2>(r), r);
  }
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

/// Which layers have the mixer, and its tensors.
void map_mixers(CheckpointMap& m) {
  m.config.require(m.config.get_bool("mamba_enabled", true), "mamba_enabled false");
  const int64_t period = m.config.get_int("mamba_step", 2, 2, 1 << 20);
  const int64_t kv_heads = m.config.get_int("num_key_value_heads", 4, 1, 4096);
  const int64_t heads = m.config.get_int("mamba_num_heads", 64, 1, 4096);
  const int64_t inner = heads * m.config.get_int("hidden_size_per_head", 128, 1, kMaxWidth);
  const int64_t state = m.config.get_int("mamba_d_state", 64, 1, kMaxWidth);
  const int64_t taps = m.config.get_int("mamba_d_conv", 4, 2, kMostTaps);
  m.keys.set_int("ssm.conv_kernel", taps);
  m.keys.set_int("ssm.inner_size", inner);
  m.keys.set_int("ssm.state_size", state);
  m.keys.set_int("ssm.time_step_rank", heads);
  m.keys.set_int("ssm.group_count", 0);
  const int64_t layers = m.layer_count();
  const bool few = layers <= period / 2;  // then the last one has attention
  std::vector<int64_t> queries;
  std::vector<int64_t> keys;
  for (int64_t i = 0; i < layers && m.tensors.ok(); ++i) {
    const bool attends = few ? i + 1 == layers : i % period == period / 2;
    queries.push_back(attends ? m.head_count() : 0);
    keys.push_back(attends ? kv_heads : 0);
    const std::string from = layer_name(i, "mixer.");
    const auto to = [&](const char* tensor) { return block_name(i, tensor); };
    if (attends) {
      m.tensors.copy(from + "q_weight", to("attn_q_norm.weight"));
      m.tensors.copy(from + "k_weight", to("attn_k_norm.weight"));
      continue;
    }
    m.tensors.put(to("ssm_conv1d.weight"), m.tensors.view(from + "conv1d.weight", {taps, inner}));
    std::vector<float> decays = m.tensors.values(from + "A_log", heads);
    for (float& a : decays) a = static_cast<float>(-portable::exp(a));
    m.tensors.put_values(to("ssm_a"), decays);
    for (const auto& [name, made] : {std::pair{"D", "ssm_d"},
                                     {"dt_bias", "ssm_dt.bias"},
                                     {"dt_norm_weight", "ssm_dt_norm"},
                                     {"B_norm_weight", "ssm_b_norm"},
                                     {"C_norm_weight", "ssm_c_norm"}}) {
      m.tensors.copy(from + name, to(made));
    }
  }
  m.layers({{"mixer.in_proj", "ssm_in"},
            {"mixer.bcdt_proj", "ssm_x"},
            {"mixer.dt_proj", "ssm_dt"},
            {"mixer.out_proj", "ssm_out"}});
  m.keys.set_ints("attention.head_count", queries);
  m.keys.set_ints("attention.head_count_kv", keys);
}

void map(CheckpointMap& m) {
  const bool second =
      m.config.checkpoint() == "Plamo2ForCausalLM" || m.config.checkpoint() == "PLaMo2ForCausalLM";
  if (second) {
    m.config.assume("head_dim", m.config.get_int("hidden_size_per_head", 128, 1, kMaxWidth));
  }
  find_rope(m);
  m.begin({.architecture = second ? "plamo2" : "plamo3"});
  m.tensors.also_named("layers.layers.", "layers.");
  second ? map_mixers(m) : map_windows(m);
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

const ArchDef& plamo2_arch() {
  static constexpr const char* kNames[] = {"plamo2", "plamo3"};
  static constexpr const char* kCheckpoints[] = {"Plamo2ForCausalLM", "PLaMo2ForCausalLM",
                                                 "Plamo3ForCausalLM", "PLaMo3ForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
