#include "engine/model/streams.h"

#include <algorithm>

namespace infer {
namespace {

constexpr int64_t kMostIterations = 1000;

}  // namespace

Streams::Streams(HparamReader& r, const DecoderParams& params) : eps(params.eps) {
  gates.streams = static_cast<int32_t>(
      r.need_int("hyper_connection.count", 2,
                 std::clamp<int64_t>(params.embedding, 2, op::StreamGates::kMostStreams)));
  gates.iterations =
      static_cast<int32_t>(r.need_int("hyper_connection.sinkhorn_iterations", 1, kMostIterations));
  gates.eps = static_cast<float>(r.get_float("hyper_connection.epsilon", 1e-6));
}

ValueId Streams::constant(ModelBuilder& m, ValueId x, float value) const {
  // Zero times something, held at the number.
  if (m.g.value(x).desc.shape[1] > 1) x = m.g.merge_heads(x);
  return m.g.add(op::Scale{0.0f, value, value}, {m.g.slice(x, 0, gates.streams)});
}

ValueId Streams::spread(ModelBuilder& m, ValueId x) const {
  return m.g.add(op::MoeSpread{}, {x, constant(m, x, 1.0f)});
}

Streams::Part Streams::take(ModelBuilder& m, ValueId x, const std::string& name, bool gives) const {
  GraphBuilder& g = m.g;
  op::StreamGates own = gates;
  if (!gives) own.iterations = 0;
  const int64_t n = own.streams;
  const int64_t elements = gives ? n * (n + 2) : n;
  const ValueId normed = g.add(op::RmsNorm{eps}, {g.merge_heads(x), kNoValue});
  const ValueId y = m.linear(normed, name + "_fn", elements);
  const ValueId scale = m.weight(name + "_scale.weight", {gives ? 3 : 1});
  const ValueId base = m.weight(name + "_base.weight", {elements});
  const std::vector<ValueId> made = g.add_all(own, {y, scale, base});
  if (made.empty()) return {};
  const ValueId taken = g.add(op::MoeCombine{}, {x, made[0]});
  if (!gives || made.size() < 3) return {taken};
  return {taken, made[1], made[2]};
}

ValueId Streams::give(ModelBuilder& m, ValueId x, ValueId h, const Part& part) const {
  return m.g.add(op::MixStreams{}, {x, part.mix, h, part.shares});
}

ValueId Streams::layers(ModelBuilder& m, const DecoderParams& params, const Block& attend,
                        const Block& feed) const {
  ValueId x = spread(m, m.embed_tokens());
  for (int64_t layer = 0; layer < params.layers; ++layer) {
    m.g.set_unit({UnitKind::attention, static_cast<int32_t>(layer)});
    Part part = take(m, x, block_name(layer, "hc_attn"));
    ValueId h = m.rms_norm(part.taken, block_name(layer, "attn_norm.weight"), params.eps);
    h = attend(h, layer);
    if (layer + 1 == params.layers) {
      for (ValueId* value : {&x, &h, &part.shares, &part.mix}) *value = m.select_outputs(*value);
    }
    x = give(m, x, h, part);
    m.g.set_unit({UnitKind::feed_forward, static_cast<int32_t>(layer)});
    part = take(m, x, block_name(layer, "hc_ffn"));
    h = m.rms_norm(part.taken, block_name(layer, "ffn_norm.weight"), params.eps);
    x = give(m, x, feed(h, layer), part);
  }
  return x;
}

ValueId Streams::mean(ModelBuilder& m, ValueId x) const {
  const float share = 1.0f / static_cast<float>(gates.streams);
  return m.g.add(op::MoeCombine{}, {x, constant(m, x, share)});
}

void map_streams(CheckpointMap& m) {
  m.keys.set_int("hyper_connection.count",
                 m.config.get_int("hc_mult", 4, 2, op::StreamGates::kMostStreams));
  m.keys.set_int("hyper_connection.sinkhorn_iterations",
                 m.config.get_int("hc_sinkhorn_iters", 20, 1, kMostIterations));
  m.keys.set_float("hyper_connection.epsilon", m.config.get_float("hc_eps", 1e-6));
  for (const std::string part : {"_fn", "_base", "_scale"}) {
    for (int64_t i = 0; i < m.layer_count(); ++i) {
      for (const std::string which : {"hc_attn", "hc_ffn"}) {
        m.tensors.copy(layer_name(i, which + part),
                       block_name(i, (which + part + ".weight").c_str()));
      }
    }
  }
}

}  // namespace infer
