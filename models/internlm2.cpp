// InternLM 2 and 2.5: the plain decoder with interleaved RoPE. Checkpoints have q, k and v in one
// matrix, by key-value head. Cai et al. 2024.
#include "engine/model/checkpoint.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  auto model = std::make_unique<DecoderModel>(r, op::Rope::Style::interleaved);
  return DecoderModel::finish(std::move(model), r);
}

/// For each key-value head there are the rows of its queries, of its key and of its value. Those
/// that RoPE turns together lie half a head apart, and are to be neighbours.
void split(CheckpointMap& m, int64_t layer, const std::string& kind, int64_t width) {
  const std::string from = layer_name(layer, "attention.wqkv") + kind;
  if (!m.tensors.has(from)) return;
  const int64_t heads = m.head_count();
  const int64_t kv_heads = m.config.get_int("num_key_value_heads", heads, 1, 4096);
  const int64_t half = m.config.need_int("hidden_size", 1, kMaxWidth) / heads / 2;
  const int64_t queries = heads / kv_heads;
  const TensorView all = m.tensors.view(from, {width, half, 2, (queries + 2) * kv_heads});
  if (!m.tensors.ok()) return;
  std::vector<TensorView> q, k, v;
  for (int64_t i = 0; i < kv_heads; ++i) {
    const int64_t first = i * (queries + 2);
    q.push_back(all.sliced(3, first, queries).swapped(1, 2));
    k.push_back(all.sliced(3, first + queries, 1).swapped(1, 2));
    v.push_back(all.sliced(3, first + queries + 1, 1));
  }
  const auto put = [&](const char* part, std::vector<TensorView> parts, int64_t rows) {
    const std::string to = block_name(layer, part) + kind;
    if (kind == ".bias") return m.tensors.put_parts(to, std::move(parts), {rows});
    m.tensors.put_parts(to, std::move(parts), {width, rows});
  };
  put("attn_q", std::move(q), heads * half * 2);
  put("attn_k", std::move(k), kv_heads * half * 2);
  put("attn_v", std::move(v), kv_heads * half * 2);
}

void map(CheckpointMap& m) {
  m.tensors.also_named("tok_embeddings.", "embed_tokens.");
  m.tensors.also_named("output.", "lm_head.");
  m.begin({.architecture = "internlm2"});
  const int64_t heads = m.head_count();
  m.config.require(heads % m.config.get_int("num_key_value_heads", heads, 1, 4096) == 0,
                   "this num_key_value_heads");
  m.ends();
  m.layers({{"attention_norm", "attn_norm"},
            {"ffn_norm", "ffn_norm"},
            {"attention.wo", "attn_output"},
            {"feed_forward.w1", "ffn_gate"},
            {"feed_forward.w3", "ffn_up"},
            {"feed_forward.w2", "ffn_down"}});
  const int64_t width = m.config.need_int("hidden_size", 1, kMaxWidth);
  for (int64_t i = 0; i < m.layer_count(); ++i) {
    split(m, i, ".weight", width);
    split(m, i, ".bias", 1);
  }
}

}  // namespace

const ArchDef& internlm2_arch() {
  static constexpr const char* kNames[] = {"internlm2"};
  static constexpr const char* kCheckpoints[] = {"InternLM2ForCausalLM"};
  static const ArchDef def{.names = kNames,
                           .create = create,
                           .checkpoints = kCheckpoints,
                           .map = map,
                           .layout = {.interleaves = true}};
  return def;
}

}  // namespace infer
