#include "engine/model/delta_latent_decoder.h"

namespace infer {
namespace {

/// The first layer with latent attention, or 0.
int64_t first_latent(const DecoderParams& params) {
  for (int64_t layer = params.first_layer; layer < params.layers; ++layer) {
    if (params.kv_heads[static_cast<size_t>(layer)] > 0) return layer;
  }
  return 0;
}

}  // namespace

DeltaLatentModel::DeltaLatentModel(HparamReader& r, bool turns)
    : LimitedModel(r, op::Rope::Style::interleaved, true, turns),
      latent(r, params, first_latent(params)),
      delta(r, params) {
  latent.set_caches(info_.kv_layers);
  for (AttentionBlock& block : attention) {
    if (block.layer < params.first_layer || attends(block.layer)) continue;
    delta.set_heads(block);
    add_state(block.layer, delta.state());
  }
  if (params.experts == 0) return;
  experts.route = read_route(r, params, 2, true);
  if (experts.shared_width == 0) {
    experts.shared_width = r.get_int("expert_shared_count", 0, 0, 1024) * experts.width;
  }
}

ValueId DeltaLatentModel::attend(ModelBuilder& m, ValueId x, int64_t layer) const {
  const AttentionBlock& block = attention[static_cast<size_t>(layer)];
  if (attends(layer)) return latent_block(m, x, layer, latent, block.cache);
  return kimi_delta_block(m, x, block, delta, states[static_cast<size_t>(layer)]);
}

}  // namespace infer
