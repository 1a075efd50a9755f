// GLM-4 (0414), and the text of GLM-4.1V, GLM-4.6V-Flash and GLM-OCR: norms before and after each
// part, fused gate/up, interleaved RoPE over part of the head, biases on q, k and v. GLM Team 2024.
// In files of the models that see, where the pairs of RoPE have axes, they lie half of that part
// apart.
#include <vector>

#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_rope.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

constexpr const char* kGlm4v = "Glm4vForConditionalGeneration";
constexpr const char* kOcr = "GlmOcrForConditionalGeneration";

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  auto model = std::make_unique<DecoderModel>(r, op::Rope::Style::interleaved);
  model->post_norms = true;
  RopeSpec& rope = model->mutable_info().ropes[0];
  read_axes(r, rope, false);
  if (!rope.of_pairs.empty()) {
    for (AttentionBlock& block : model->attention) block.style = op::Rope::Style::half_split;
  }
  return DecoderModel::finish(std::move(model), r);
}

/// Queries or keys. The pairs of each head are neighbours in the checkpoint; here its first part
/// has the first elements of all pairs, then the second ones.
void map_split(CheckpointMap& m, int64_t layer, const std::string& part, int64_t heads) {
  const std::string from = layer_name(layer, "self_attn." + part + "_proj");
  const std::string to = fmt::format("blk.{}.attn_{}", layer, part);
  const std::array<int64_t, kMaxDims> shape = m.tensors.shape_of(from + ".weight");
  const int64_t pairs = shape[1] / heads / 2;  // of a head
  m.config.require(shape[1] == 2 * pairs * heads && m.rope_pairs() <= pairs,
                   "heads of an odd number of elements");
  const auto put = [&](const std::string& end, int64_t width) {
    const TensorView all = m.tensors.view(from + end, {width, 2, pairs, heads});
    std::vector<TensorView> parts;
    for (int64_t head = 0; head < heads && m.tensors.ok(); ++head) {
      const TensorView one = all.sliced(3, head, 1);
      parts.push_back(one.sliced(2, 0, m.rope_pairs()).swapped(1, 2));
      const int64_t rest = pairs - m.rope_pairs();
      if (rest > 0) parts.push_back(one.sliced(2, m.rope_pairs(), rest));
    }
    if (width > 1) return m.tensors.put_parts(to + end, std::move(parts), {width, shape[1]});
    m.tensors.put_parts(to + end, std::move(parts), {shape[1]});
  };
  put(".weight", shape[0]);
  if (m.tensors.has(from + ".bias")) put(".bias", 1);
  m.tensors.copy(from + kColumnOrder, to + kColumnOrder);
  m.tensors.copy(from + kProductScale, to + kProductScale);
}

void map(CheckpointMap& m) {
  const bool ocr = m.config.checkpoint() == kOcr;
  const bool sees = ocr || m.config.checkpoint() == kGlm4v;
  if (!sees) m.config.assume("partial_rotary_factor", 0.5);
  m.begin({.architecture = "glm4"});
  m.ends();
  m.layers({{"input_layernorm", "attn_norm"},
            {"post_self_attn_layernorm", "post_attention_norm"},
            {"post_attention_layernorm", "ffn_norm"},
            {"post_mlp_layernorm", "post_ffw_norm"},
            {"mlp.gate_up_proj", "ffn_up"},
            {"mlp.down_proj", "ffn_down"}});
  if (!sees) return m.attention();
  map_axes(m, {8, 12, 12});
  const int64_t usual_kv_heads = ocr ? 8 : 2;
  m.layers({{"self_attn.v_proj", "attn_v"}, {"self_attn.o_proj", "attn_output"}});
  for (int64_t layer = 0; layer < m.layer_count(); ++layer) {
    map_split(m, layer, "q", m.head_count());
    map_split(m, layer, "k",
              m.config.get_int("num_key_value_heads", usual_kv_heads, 1, m.head_count()));
  }
  // A layer that predicts further tokens.
  if (ocr) m.tensors.ignore_prefix(layer_name(m.layer_count(), ""));
}

}  // namespace

const ArchDef& glm4_arch() {
  static constexpr const char* kNames[] = {"glm4"};
  static constexpr const char* kCheckpoints[] = {"Glm4ForCausalLM", kGlm4v, kOcr};
  static const ArchDef def{.names = kNames,
                           .create = create,
                           .checkpoints = kCheckpoints,
                           .map = map,
                           .layout = {.splits_axes = true}};
  return def;
}

}  // namespace infer
