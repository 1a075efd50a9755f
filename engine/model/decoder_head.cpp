// A layer of a file that predicts the token after the next one (multi-token prediction). For a
// token t and the hidden state h of the token before it:
//   z = eh_proj · [norm(embedding of t); norm(h)];  u = layer(z)
// The norm of u gives the logits, and is the hidden state for the token drafted next. A head that
// takes what leaves the model's last layer (ModelInfo::takes_unnormed) gives u itself. DeepSeek-AI
// 2024 (V3, section 2.2).
#include "engine/model/decoder.h"

namespace infer {

void DecoderModel::build_head(ModelBuilder& m) const {
  const int64_t layer = params.first_layer;
  const auto name = [&](const char* part) {
    return block_name(layer, (std::string("nextn.") + part).c_str());
  };
  m.g.set_unit({UnitKind::embedding, -1});
  ValueId token = kNoValue;
  if (m.has(name("embed_tokens.weight"))) {
    const ValueId table =
        m.weight(name("embed_tokens.weight"), {params.embedding, params.vocabulary});
    token = m.g.add(op::Embed{embedding_scale}, {m.g.input(StepInput::tokens), table});
  } else {
    token = m.embed_tokens(embedding_scale);
  }
  m.g.set_unit({UnitKind::attention, static_cast<int32_t>(layer)});
  const ValueId hidden = m.g.input(StepInput::hidden, 0, params.embedding);
  token = weighted(m, token, name("enorm"), params.eps);
  ValueId x = weighted(m, hidden, name("hnorm"), params.eps);
  x = m.g.add(op::Concat{}, {head_hidden_first ? x : token, head_hidden_first ? token : x});
  x = add_layer(m, m.linear(x, name("eh_proj"), params.embedding), layer, true);
  if (info_.takes_unnormed) m.g.output(x, "hidden");
  x = head_norm(m, x);
  if (!info_.takes_unnormed) m.g.output(x, "hidden");
  if (m.has(name("shared_head_head.weight"))) {
    m.g.set_unit({UnitKind::output, -1});
    if (info_.returns_hidden) x = m.g.add(op::SelectRows{}, {x, m.g.input(StepInput::output_rows)});
    x = m.linear(x, name("shared_head_head"), params.vocabulary);
  } else {
    x = m.output_logits(x);
  }
  output_logits(m, x);
}

/// What its logits are made of: "nextn.shared_head_norm", "layer_output_norm" (the same in files of
/// MiMo) or the model's last norm.
ValueId DecoderModel::head_norm(ModelBuilder& m, ValueId x) const {
  const std::string own = block_name(params.first_layer, "nextn.shared_head_norm");
  const std::string other = block_name(params.first_layer, "layer_output_norm");
  if (m.has(own + ".weight") && head_layer_norm > 0) return m.layer_norm(x, own, head_layer_norm);
  for (const std::string& name : {own, other}) {
    if (m.has(name + ".weight")) return weighted(m, x, name, params.eps);
  }
  return weighted(m, x, output_norm_name, params.eps);
}

}  // namespace infer
