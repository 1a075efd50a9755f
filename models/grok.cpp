// Grok 1 and 2, of files: half-split RoPE, scores that are scaled and soft-capped, norms before and
// after each part; experts chosen by softmax, whose weights sum to one, with GELU. Grok 2 has a
// feed-forward beside the experts. xAI 2024, 2025.
#include <cmath>

#include "engine/model/blocks.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

class Grok final : public DecoderModel {
 public:
  explicit Grok(HparamReader& r) : DecoderModel(r, op::Rope::Style::half_split) {
    const auto number = [&](const char* key, double absent) {
      return static_cast<float>(r.get_float(key, absent));
    };
    // What files of Grok 1 that say nothing mean.
    embedding_scale = number("embedding_scale", 78.38367176906169);
    logit_scale = number("logit_scale", 0.5773502691896257);
    logit_softcap = number("final_logit_softcapping", 0.0);
    const float scale = number("attention.output_scale", 0.08838834764831845);
    const float cap = number("attn_logit_softcapping", 30.0);
    for (AttentionBlock& block : attention) {
      block.scale = scale;
      block.softcap = cap;
    }
    post_norms = true;
    post_attention_name = "attn_output_norm";
    const std::string first = block_name(0, "layer_output_norm.weight");
    if (weight_index(r.source(), first) >= 0) post_ffn_name = "layer_output_norm";
    glu.kind = op::Glu::Kind::gelu_tanh;
    experts.route = read_route(r, params, 1, true);
    experts.route.normalise = true;
  }

  ValueId feed_forward(ModelBuilder& m, ValueId x, int64_t layer) const override {
    const ValueId made = DecoderModel::feed_forward(m, x, layer);
    if (!m.has(block_name(layer, "ffn_up.weight"))) return made;
    const int64_t width = params.feed_forward[static_cast<size_t>(layer)];
    const ValueId beside = feed_forward_block(m, x, layer, width, glu);
    return m.g.add(op::Scale{std::sqrt(0.5f)}, {m.add(beside, made)});
  }
};

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  auto model = std::make_unique<Grok>(r);
  if (model->params.experts == 0) {
    r.set_error(error(StatusCode::bad_file, "{}: key 'grok.expert_count': expected 1 or more",
                      source.metadata().source()));
  }
  return DecoderModel::finish(std::move(model), r);
}

}  // namespace

const ArchDef& grok_arch() {
  static constexpr const char* kNames[] = {"grok"};
  static const ArchDef def{.names = kNames, .create = create, .checkpoints = {}, .map = nullptr};
  return def;
}

}  // namespace infer
