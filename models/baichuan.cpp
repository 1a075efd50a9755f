// Baichuan and Baichuan 2: the plain decoder; models of 13B have biases by distance in place of
// RoPE. Yang et al. 2023.
#include "engine/graph/alibi.h"
#include "engine/model/checkpoint.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

/// Files do not say which they are: those of 13B have so many.
constexpr int64_t kLayersOf13b = 40;
/// Baichuan 2 has so many tokens, and an output matrix whose rows are to be unit vectors.
constexpr int64_t kTokensOf2 = 125696;

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  auto model = std::make_unique<DecoderModel>(r, op::Rope::Style::interleaved);
  model->read_alibi(r, model->params.layers == kLayersOf13b ? kUsualAlibi : 0.0f, true);
  return DecoderModel::finish(std::move(model), r);
}

void map(CheckpointMap& m) {
  if (m.config.has("model_max_length")) {
    m.config.assume("max_position_embeddings",
                    m.config.need_int("model_max_length", 1, kMaxContext));
  }
  m.begin({.architecture = "baichuan"});
  if (m.layer_count() == kLayersOf13b) m.keys.set_float("attention.max_alibi_bias", kUsualAlibi);
  const bool second = m.tensors.shape_of("embed_tokens.weight")[1] == kTokensOf2;
  m.ends(Change::none, second ? Change::unit_rows : Change::none);
  m.layers({{"input_layernorm", "attn_norm"}, {"post_attention_layernorm", "ffn_norm"}});
  m.attention();
  m.feed_forward();
  const int64_t width = m.config.need_int("hidden_size", 1, kMaxWidth);
  for (int64_t i = 0; i < m.layer_count() && m.tensors.ok(); ++i) {
    const TensorView all =
        m.tensors.view(layer_name(i, "self_attn.W_pack.weight"), {width, width, 3});
    const auto part = [&](int64_t which, const char* name, Change change) {
      m.tensors.put(block_name(i, name), all.sliced(2, which, 1), change);
    };
    part(0, "attn_q.weight", Change::interleave_q);
    part(1, "attn_k.weight", Change::interleave_k);
    part(2, "attn_v.weight", Change::none);
  }
}

}  // namespace

const ArchDef& baichuan_arch() {
  static constexpr const char* kNames[] = {"baichuan"};
  static constexpr const char* kCheckpoints[] = {"BaichuanForCausalLM", "BaiChuanForCausalLM"};
  static const ArchDef def{.names = kNames,
                           .create = create,
                           .checkpoints = kCheckpoints,
                           .map = map,
                           .layout = {.interleaves = true}};
  return def;
}

}  // namespace infer
