// The layer of a file that predicts the token after the next one (multi-token prediction). For a
// token t and the hidden state h of the token before it:
//   z = eh_proj · [norm(embedding of t); norm(h)];  u = layer(z)
// The norm of u gives the logits, and is the hidden state for the token drafted next. DeepSeek-AI
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
  token = m.rms_norm(token, name("enorm.weight"), params.eps);
  ValueId x = m.rms_norm(hidden, name("hnorm.weight"), params.eps);
  x = m.linear(m.g.add(op::Concat{}, {token, x}), name("eh_proj"), params.embedding);
  x = add_layer(m, x, layer, true);
  const std::string last = name("shared_head_norm");
  if (!m.has(last + ".weight")) {
    x = weighted(m, x, output_norm_name);
  } else if (head_layer_norm > 0) {
    x = m.layer_norm(x, last, head_layer_norm);
  } else {
    x = m.rms_norm(x, last + ".weight", params.eps);
  }
  m.g.output(x, "hidden");
  if (m.has(name("shared_head_head.weight"))) {
    m.g.set_unit({UnitKind::output, -1});
    x = m.linear(x, name("shared_head_head"), params.vocabulary);
  } else {
    x = m.output_logits(x);
  }
  output_logits(m, x);
}

}  // namespace infer
