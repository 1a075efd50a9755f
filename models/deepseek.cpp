// DeepSeekMoE 16B: Llama's attention; behind the first layers experts chosen by softmax, whose
// weights are not normalised, beside some that every token takes. Dai et al. 2024. Ling and
// Ling-Coder of the first generation are the same with normalised weights. Ling Team 2025.
#include <tuple>

#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_experts.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  auto model = std::make_unique<DecoderModel>(r, op::Rope::Style::interleaved);
  model->experts.route = read_route(r, model->params, 1, false);
  model->experts.shared_width = r.get_int("expert_shared_count", 0, 0, 1024) * model->experts.width;
  return DecoderModel::finish(std::move(model), r);
}

/// Queries, keys and values are one matrix.
void map_ling_attention(CheckpointMap& m) {
  const int64_t width = m.config.need_int("hidden_size", 1, kMaxWidth);
  const int64_t heads = m.head_count();
  const int64_t kv_heads = m.config.get_int("num_key_value_heads", heads, 1, heads);
  const int64_t head = m.config.get_int("head_dim", width / heads, 1, kMaxWidth);
  for (int64_t i = 0; i < m.layer_count(); ++i) {
    const std::string name = layer_name(i, "attention.query_key_value.weight");
    const int64_t rows = (heads + 2 * kv_heads) * head;
    const TensorView all = m.tensors.view(name, {width, rows});
    int64_t first = 0;
    for (const auto& [to, of_part, change] :
         {std::tuple{"attn_q.weight", heads, Change::interleave_q},
          {"attn_k.weight", kv_heads, Change::interleave_k},
          {"attn_v.weight", kv_heads, Change::none}}) {
      m.tensors.put(block_name(i, to), all.sliced(1, first, of_part * head), change);
      first += of_part * head;
    }
  }
  m.layers({{"attention.dense", "attn_output"}});
}

void map_ling(CheckpointMap& m) {
  m.tensors.also_named("word_embeddings.", "embed_tokens.");
  m.begin({.architecture = "bailingmoe"});
  for (const char* const key : {"use_bias", "use_qkv_bias", "norm_head", "multi_gate"}) {
    m.config.require(!m.config.get_bool(key, false), key);
  }
  m.ends();
  m.layers({{"input_layernorm", "attn_norm"}, {"post_attention_layernorm", "ffn_norm"}});
  map_ling_attention(m);
  m.feed_forward();
  m.config.assume("n_routed_experts", m.config.need_int("num_experts", 1, 65536));
  m.config.assume("n_shared_experts", m.config.get_int("num_shared_experts", 0, 0, 1024));
  m.config.assume("norm_topk_prob", true);
  map_deepseek_experts(m, DeepseekRouting::v2);
}

void map(CheckpointMap& m) {
  if (m.config.checkpoint() == "BailingMoeForCausalLM") return map_ling(m);
  m.begin({.architecture = "deepseek"});
  m.ends();
  m.layers({{"input_layernorm", "attn_norm"}, {"post_attention_layernorm", "ffn_norm"}});
  m.attention();
  m.feed_forward();
  map_deepseek_experts(m, DeepseekRouting::v2);
}

}  // namespace

const ArchDef& deepseek_arch() {
  static constexpr const char* kNames[] = {"deepseek", "bailingmoe"};
  static constexpr const char* kCheckpoints[] = {"DeepseekForCausalLM", "BailingMoeForCausalLM"};
  static const ArchDef def{.names = kNames,
                           .create = create,
                           .checkpoints = kCheckpoints,
                           .map = map,
                           .layout = {.interleaves = true}};
  return def;
}

}  // namespace infer
