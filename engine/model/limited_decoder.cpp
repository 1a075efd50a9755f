#include "engine/model/limited_decoder.h"

namespace infer {

void LimitedModel::read_limits(HparamReader& r, bool same) {
  limits_ = r.limits("swiglu_clamp_exp", params.layers);
  other_limits_ = r.limits("swiglu_clamp_shexp", params.layers);
  if (same && !r.has("swiglu_clamp_shexp")) other_limits_ = limits_;
}

ValueId LimitedModel::feed_forward(ModelBuilder& m, ValueId x, int64_t layer) const {
  if (limits_.empty()) return DecoderModel::feed_forward(m, x, layer);
  const auto i = static_cast<size_t>(layer);
  if (!m.has(block_name(layer, "ffn_gate_inp.weight"))) {
    return feed_forward_block(m, x, layer, params.feed_forward[i], glu, "", other_limits_[i],
                              experts.limits_gate);
  }
  ExpertsBlock block = experts;
  block.limit = limits_[i];
  block.shared_limit = other_limits_[i];
  return experts_block(m, x, layer, block, glu);
}

}  // namespace infer
