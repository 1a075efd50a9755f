// DeciLM and Llama-Nemotron 49B, 51B and 253B: Llama whose layers were found by a search. Some have
// a matrix in place of attention, or no attention; some have no feed-forward; widths and key-value
// heads differ. Bercovich et al. 2024.
#include <algorithm>

#include "engine/model/checkpoint.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

constexpr int64_t kMaxHeads = 65536;

class Deci final : public DecoderModel {
 public:
  explicit Deci(HparamReader& r) : DecoderModel(r, op::Rope::Style::interleaved, true) {}

  ValueId attend(ModelBuilder& m, ValueId x, int64_t layer) const override {
    if (attends(layer)) return DecoderModel::attend(m, x, layer);
    return m.linear(x, block_name(layer, "attn_output"), params.embedding);
  }
};

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  return DecoderModel::finish(std::make_unique<Deci>(r), r);
}

/// Rows of a layer's matrix; 0 without it.
int64_t rows_of(const CheckpointMap& m, int64_t layer, const char* part) {
  const std::string name = layer_name(layer, std::string(part) + ".weight");
  return m.tensors.has(name) ? m.tensors.shape_of(name)[1] : 0;
}

/// What layers have is told by their tensors: "block_configs" says the same in numbers that these
/// are computed from.
void map(CheckpointMap& m) {
  const int64_t layers = m.config.need_int("num_hidden_layers", 1, 1024);
  const int64_t heads = m.config.need_int("num_attention_heads", 1, kMaxHeads);
  const int64_t head = m.config.get_int(
      "head_dim", m.config.need_int("hidden_size", 1, kMaxWidth) / heads, 1, kMaxWidth);
  std::vector<int64_t> queries, keys, widths;
  for (int64_t i = 0; i < layers; ++i) {
    keys.push_back(rows_of(m, i, "self_attn.k_proj") / std::max<int64_t>(1, head));
    const bool mixes = keys.back() > 0 || rows_of(m, i, "self_attn.linear_attn") > 0;
    queries.push_back(mixes ? heads : 0);
    widths.push_back(rows_of(m, i, "mlp.gate_proj"));
  }
  m.config.assume("num_key_value_heads", std::max<int64_t>(1, std::ranges::max(keys)));
  m.config.assume("intermediate_size", std::max<int64_t>(1, std::ranges::max(widths)));
  m.begin({.architecture = "deci"});
  m.keys.set_int("attention.key_length", head);
  m.keys.set_int("attention.value_length", head);
  m.keys.set_ints("attention.head_count", queries);
  m.keys.set_ints("attention.head_count_kv", keys);
  m.keys.set_ints("feed_forward_length", widths);
  m.ends();
  m.layers({{"input_layernorm", "attn_norm"},
            {"post_attention_layernorm", "ffn_norm"},
            {"self_attn.linear_attn", "attn_output"},
            {"self_attn.o_proj", "attn_output"},
            {"self_attn.v_proj", "attn_v"}});
  for (int64_t i = 0; i < layers; ++i) {
    if (keys[static_cast<size_t>(i)] == 0) continue;
    m.tensors.set_heads(heads, keys[static_cast<size_t>(i)]);
    for (const char* kind : {".weight", ".bias"}) {
      m.tensors.copy(layer_name(i, "self_attn.q_proj") + kind, block_name(i, "attn_q") + kind,
                     Change::interleave_q);
      m.tensors.copy(layer_name(i, "self_attn.k_proj") + kind, block_name(i, "attn_k") + kind,
                     Change::interleave_k);
    }
  }
  m.feed_forward();
}

}  // namespace

const ArchDef& deci_arch() {
  static constexpr const char* kNames[] = {"deci"};
  static constexpr const char* kCheckpoints[] = {"DeciLMForCausalLM"};
  static const ArchDef def{.names = kNames,
                           .create = create,
                           .checkpoints = kCheckpoints,
                           .map = map,
                           .layout = {.interleaves = true}};
  return def;
}

}  // namespace infer
