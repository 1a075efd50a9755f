// Falcon-H1: in every layer attention and Mamba-2 lie side by side and take the same norm of x. The
// multipliers of its parametrisation are a part of the weights. Technology Innovation Institute
// 2025.
#include <algorithm>
#include <numeric>

#include "engine/model/checkpoint.h"
#include "engine/model/decoder.h"
#include "engine/model/mamba2.h"

namespace infer {
namespace {

class FalconH1 final : public DecoderModel {
 public:
  explicit FalconH1(HparamReader& r)
      : DecoderModel(r, op::Rope::Style::half_split), mamba_(r, params.eps) {
    for (int64_t layer = 0; layer < params.layers; ++layer) {
      add_state(layer, mamba_.state_elements());
    }
  }

  ValueId attend(ModelBuilder& m, ValueId x, int64_t layer) const override {
    const ValueId mixed = mamba2_block(m, x, layer, mamba_, states[static_cast<size_t>(layer)]);
    return m.add(DecoderModel::attend(m, x, layer), mixed);
  }

 private:
  Mamba2Block mamba_;
};

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  return DecoderModel::finish(std::make_unique<FalconH1>(r), r);
}

/// A matrix, multiplied.
void scaled(CheckpointMap& m, const std::string& from, const std::string& to, double factor) {
  const std::array<int64_t, kMaxDims> shape = m.tensors.shape_of(from);
  m.tensors.put_scaled(to, {m.tensors.view(from, {shape[0], shape[1]})},
                       {static_cast<float>(factor)}, {shape[0], shape[1]});
}

/// The rows of the gate, of values, of the two vectors of the groups and of steps have multipliers
/// of their own.
void scale_input(CheckpointMap& m, const Mamba2Sizes& s, int64_t layer) {
  const int64_t inner = s.heads * s.head;
  const int64_t vectors = s.groups * s.state;
  const int64_t rows[] = {inner, inner, vectors, vectors, s.heads};
  const std::vector<float> each = m.config.get_floats("ssm_multipliers");
  m.config.require(each.empty() || each.size() == std::size(rows),
                   "this number of ssm_multipliers");
  const auto all = static_cast<float>(m.config.get_float("ssm_in_multiplier", 1.0));
  const int64_t width = m.config.need_int("hidden_size", 1, kMaxWidth);
  const int64_t total = std::accumulate(std::begin(rows), std::end(rows), int64_t{0});
  const TensorView view = m.tensors.view(layer_name(layer, "mamba.in_proj.weight"), {width, total});
  if (!m.tensors.ok()) return;
  const int64_t unit = std::gcd(std::gcd(inner, vectors), s.heads);  // parts are of equal size
  std::vector<TensorView> parts;
  std::vector<float> factors;
  int64_t row = 0;
  for (size_t i = 0; i < std::size(rows); ++i) {
    for (const int64_t end = row + rows[i]; row < end; row += unit) {
      parts.push_back(view.sliced(1, row, unit));
      factors.push_back(each.empty() ? all : all * each[i]);
    }
  }
  m.tensors.put_scaled(block_name(layer, "ssm_in.weight"), std::move(parts), std::move(factors),
                       {width, total});
}

void map(CheckpointMap& m) {
  m.begin({.architecture = "falcon-h1"});
  m.config.require(!m.config.get_bool("mamba_norm_before_gate", false), "mamba_norm_before_gate");
  for (const char* bias : {"mamba_proj_bias", "projectors_bias"}) {
    m.config.require(!m.config.get_bool(bias, false), bias);
  }
  const auto factor = [&](const char* key) { return m.config.get_float(key, 1.0); };
  scaled(m, "embed_tokens.weight", "token_embd.weight", factor("embedding_multiplier"));
  const bool tied = m.config.get_bool("tie_word_embeddings", !m.tensors.has("lm_head.weight"));
  scaled(m, tied ? "embed_tokens.weight" : "lm_head.weight", "output.weight",
         factor("lm_head_multiplier"));
  m.tensors.copy("final_layernorm.weight", "output_norm.weight");
  m.layers({{"input_layernorm", "attn_norm"}, {"feed_forward.up_proj", "ffn_up"}});
  Mamba2Sizes sizes = read_mamba2_sizes(m);
  sizes.scaled = true;
  map_mamba2(m, sizes);
  std::vector<float> feed = m.config.get_floats("mlp_multipliers");
  feed.resize(2, 1.0f);
  const double in = factor("attention_in_multiplier");
  for (int64_t i = 0; i < m.layer_count(); ++i) {
    // llama.cpp leaves the ending out.
    m.tensors.copy(layer_name(i, "pre_ff_layernorm.weight"), block_name(i, "ffn_norm"));
    const auto part = [&](const char* from, const char* to, double by) {
      scaled(m, layer_name(i, from) + ".weight", block_name(i, to) + ".weight", by);
    };
    part("self_attn.q_proj", "attn_q", in);
    part("self_attn.k_proj", "attn_k", in * factor("key_multiplier"));
    part("self_attn.v_proj", "attn_v", in);
    part("self_attn.o_proj", "attn_output", factor("attention_out_multiplier"));
    part("feed_forward.gate_proj", "ffn_gate", static_cast<double>(feed[0]));
    part("feed_forward.down_proj", "ffn_down", static_cast<double>(feed[1]));
    part("mamba.out_proj", "ssm_out", factor("ssm_out_multiplier"));
    scale_input(m, sizes, i);
    map_mamba2_layer(m, sizes, i, "mamba");
  }
}

}  // namespace

const ArchDef& falcon_h1_arch() {
  static constexpr const char* kNames[] = {"falcon-h1"};
  static constexpr const char* kCheckpoints[] = {"FalconH1ForCausalLM"};
  static const ArchDef def{.names = kNames,
                           .create = create,
                           .checkpoints = kCheckpoints,
                           .map = map,
                           .layout = {.rescales = true}};
  return def;
}

}  // namespace infer
