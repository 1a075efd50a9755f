// PLaMo 13B: attention and feed-forward side by side on one RMSNorm, half-split RoPE. Preferred
// Networks 2023.
#include "engine/model/checkpoint.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  auto model = std::make_unique<DecoderModel>(r, op::Rope::Style::half_split);
  model->parallel = true;
  return DecoderModel::finish(std::move(model), r);
}

/// Query head h takes key head h mod (key heads) there: those that share one become neighbours.
void map_heads(CheckpointMap& m, int64_t width, int64_t kv_heads) {
  const int64_t heads = m.head_count();
  const int64_t head = width / heads;
  const int64_t group = heads / kv_heads;
  for (int64_t i = 0; i < m.layer_count() && m.tensors.ok(); ++i) {
    const std::string at = layer_name(i, "self_attn.");
    const TensorView q = m.tensors.view(at + "q_proj.weight", {width, head, kv_heads, group});
    const TensorView out = m.tensors.view(at + "o_proj.weight", {head, kv_heads, group, width});
    if (!m.tensors.ok()) return;
    m.tensors.put_parts(block_name(i, "attn_q.weight"), {q.swapped(2, 3)}, {width, width});
    m.tensors.put_parts(block_name(i, "attn_output.weight"), {out.swapped(1, 2)}, {width, width});
  }
}

void map(CheckpointMap& m) {
  const int64_t heads = m.config.need_int("num_attention_heads", 1, 4096);
  const int64_t width = m.config.need_int("hidden_size", 1, kMaxWidth);
  const int64_t group = m.config.get_int("n_shared_head", 8, 1, heads);
  m.config.require(heads % group == 0 && width % heads == 0, "these numbers of heads");
  m.config.replace("num_key_value_heads", std::max<int64_t>(1, heads / group));
  m.config.assume("max_position_embeddings", int64_t{4096});  // no key says it
  m.begin({.architecture = "plamo"});
  m.tensors.also_named("layers.layers.", "layers.");
  m.ends();
  m.layers({{"norm", "attn_norm"}, {"self_attn.k_proj", "attn_k"}, {"self_attn.v_proj", "attn_v"}});
  m.feed_forward();
  if (m.tensors.ok()) map_heads(m, width, heads / group);
}

}  // namespace

const ArchDef& plamo_arch() {
  static constexpr const char* kNames[] = {"plamo"};
  static constexpr const char* kCheckpoints[] = {"PlamoForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
