// Llama 4 (text): interleaved RoPE and attention in chunks, then an RMSNorm without weights on
// every q and k head; every fourth layer sees everything, without RoPE, by queries that grow with
// the logarithm of the position. One expert a token, whose weight multiplies what it takes, beside
// one that every token takes. Meta 2025.
#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_experts.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

constexpr int64_t kPeriod = 4;      // of the layers without RoPE
constexpr int64_t kUnnormed = 128;  // experts of the model without norms of heads
constexpr int64_t kChunk = 8192;    // tokens
constexpr double kTemperature = 0.1;

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  auto model = std::make_unique<DecoderModel>(r, op::Rope::Style::interleaved);
  const DecoderParams& p = model->params;
  RopeSpec still = model->mutable_info().ropes[0];
  still.pairs = static_cast<int32_t>(p.head_dim / 2);
  still.factors = -1;
  still.magnitude = 1;
  still.turns = false;
  still.temperature = r.get_float("attention.temperature_scale", kTemperature);
  still.temperature_length =
      static_cast<double>(r.get_int("attention.temperature_length", kChunk, 1, int64_t{1} << 31));
  still.temperature_offset = 1;
  model->mutable_info().ropes.push_back(still);
  const auto chunk =
      static_cast<int32_t>(r.get_int("attention.sliding_window", kChunk, 0, INT32_MAX));
  for (AttentionBlock& block : model->attention) {
    if (chunk > 0 && (block.layer + 1) % kPeriod == 0) {
      block.rotate = false;
      block.q_rope = 1;
      continue;
    }
    block.norm_last = true;
    if (p.experts != kUnnormed) block.qk_norm = AttentionBlock::QkNorm::plain;
    block.chunked = chunk > 0;
    model->set_window(block.layer, chunk);
  }
  if (p.experts_used != 1) {
    r.set_error(error(StatusCode::unsupported, "{}: expert_used_count: expected 1, found {}",
                      r.metadata().source(), p.experts_used));
  }
  model->experts.route.gating = op::MoeRoute::Gating::sigmoid;
  model->experts.route.normalise = false;
  model->experts.weights_input = true;
  model->experts.shared_width = model->experts.width;
  return DecoderModel::finish(std::move(model), r);
}

void map_attention(CheckpointMap& m, int64_t experts) {
  const std::vector<int64_t> rotated = m.config.get_ints("no_rope_layers");  // 1: a layer with RoPE
  for (size_t i = 0; i < rotated.size(); ++i) {
    m.config.require(rotated[i] == ((i + 1) % kPeriod != 0 ? 1 : 0),
                     "this order of no_rope_layers");
  }
  const std::vector<std::string>* const types = m.config.get_strings("layer_types");
  for (size_t i = 0; types != nullptr && i < types->size(); ++i) {
    const bool chunked = (i + 1) % kPeriod != 0;
    m.config.require((*types)[i] == (chunked ? "chunked_attention" : "full_attention"),
                     "this order of layer_types");
  }
  m.config.require(m.config.get_bool("use_qk_norm", true) == (experts != kUnnormed),
                   "this use_qk_norm");
  m.config.require(m.config.get_bool("attn_temperature_tuning", true),
                   "attn_temperature_tuning false");
  // What the family always has needs no key.
  if (const int64_t chunk = m.config.get_int("attention_chunk_size", kChunk, 1, INT32_MAX);
      chunk != kChunk) {
    m.keys.set_int("attention.sliding_window", chunk);
  }
  if (const int64_t length = m.config.get_int("floor_scale", kChunk, 1, INT32_MAX);
      length != kChunk) {
    m.keys.set_int("attention.temperature_length", length);
  }
  if (const double scale = m.config.get_float("attn_scale", kTemperature); scale != kTemperature) {
    m.keys.set_float("attention.temperature_scale", scale);
  }
}

void map(CheckpointMap& m) {
  m.begin({.architecture = "llama4", .rope_base = 500000.0});
  const int64_t experts = m.config.need_int("num_local_experts", 1, 65536);
  m.keys.set_int("feed_forward_length", m.config.need_int("intermediate_size_mlp", 1, kMaxWidth));
  m.keys.set_int("expert_feed_forward_length",
                 m.config.need_int("intermediate_size", 1, kMaxWidth));
  m.keys.set_int("expert_count", experts);
  m.keys.set_int("expert_used_count", m.config.get_int("num_experts_per_tok", 1, 1, experts));
  m.keys.set_int("interleave_moe_layer_step",
                 m.config.get_int("interleave_moe_layer_step", 1, 1, 1024));
  map_attention(m, experts);
  m.ends();
  m.layers({{"input_layernorm", "attn_norm"},
            {"post_attention_layernorm", "ffn_norm"},
            {"feed_forward.gate_proj", "ffn_gate"},
            {"feed_forward.up_proj", "ffn_up"},
            {"feed_forward.down_proj", "ffn_down"},
            {"feed_forward.router", "ffn_gate_inp"},
            {"feed_forward.shared_expert.gate_proj", "ffn_gate_shexp"},
            {"feed_forward.shared_expert.up_proj", "ffn_up_shexp"},
            {"feed_forward.shared_expert.down_proj", "ffn_down_shexp"}});
  m.attention();
  for (int64_t i = 0; i < m.layer_count(); ++i) {
    if (m.tensors.has(layer_name(i, "feed_forward.router.weight")))
      add_transposed_experts(m.tensors, i, "feed_forward.experts");
  }
}

}  // namespace

const ArchDef& llama4_arch() {
  static constexpr const char* kNames[] = {"llama4"};
  static constexpr const char* kCheckpoints[] = {"Llama4ForCausalLM",
                                                 "Llama4ForConditionalGeneration"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
