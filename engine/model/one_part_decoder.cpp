#include "engine/model/one_part_decoder.h"

namespace infer {

void OnePartModel::build(ModelBuilder& m) const {
  if (is_head()) return build_head(m);
  ValueId x = m.embed_tokens();
  ValueId all = kNoValue;
  for (int64_t layer = 0; layer < params.layers; ++layer) {
    const bool last = layer + 1 == params.layers;
    m.enter_layer(layer, x);
    m.g.set_unit({remembers(layer) ? UnitKind::attention : UnitKind::feed_forward,
                  static_cast<int32_t>(layer)});
    const auto normed = [&](ValueId h) {
      return m.rms_norm(h, block_name(layer, "attn_norm.weight"), params.eps);
    };
    if (!remembers(layer)) {
      if (last && m.hidden_apart()) all = m.add(x, feed_forward(m, normed(x), layer));
      if (last) x = m.select_outputs(x);
      x = m.add(x, feed_forward(m, normed(x), layer));
      continue;
    }
    ValueId h = attend(m, normed(x), layer);
    if (last && m.hidden_apart()) all = m.add(x, h);
    // From here on only the rows whose logits are wanted.
    if (last) h = m.select_outputs(h);
    if (last) x = m.select_outputs(x);
    x = m.add(x, h);
  }
  const auto ended = [&](ValueId h) { return m.rms_norm(h, "output_norm.weight", params.eps); };
  m.enter_layer(params.layers, m.hidden_apart() ? all : x);
  if (m.hidden_apart() && info_.hidden_layers.empty()) m.return_hidden(ended(all));
  x = ended(x);
  if (!m.hidden_apart()) m.return_hidden(x);
  m.g.output(m.output_logits(x), "logits");
}

}  // namespace infer
