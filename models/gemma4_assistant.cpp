// Gemma 4's assistant: a head that drafts for a Gemma 4 of another file. It has no keys and values:
// its layers attend to what the model has stored in its last layer of the same kind, with or
// without a sliding window. For the token t and the hidden state h of the position before it:
//   z = pre_projection·[embedding of t; h];  n = norm(layers(z))
// n gives the logits. post_projection·n is the hidden state for the token drafted next. Gemma Team
// 2026.
#include <fmt/format.h>

#include <cmath>

#include "engine/model/blocks.h"
#include "engine/model/draft_source.h"
#include "engine/model/shared_kv_decoder.h"

namespace infer {
namespace {

class Gemma4Assistant final : public Model {
 public:
  Gemma4Assistant(HparamReader& r, const ModelInfo& main) {
    params_ = read_decoder_params(r);
    info_ = decoder_info(r, params_);
    info_.context = main.context;
    info_.vocabulary = main.vocabulary;
    info_.takes_hidden = main_width_ = main.embedding;
    info_.shares_cache = true;
    info_.kv_layers = main.kv_layers;
    check_main(r, main);
    narrow_ = r.get_int("attention.key_length_swa", params_.head_dim, 1, kMaxWidth);
    info_.ropes = {read_rope(r, params_.head_dim), read_rope(r, params_.head_dim)};
    info_.ropes[0].factors = weight_index(r.source(), "rope_freqs.weight");
    info_.ropes[1].base = r.get_float("rope.freq_base_swa", 10000.0);
    info_.ropes[1].pairs =
        static_cast<int32_t>(r.get_int("rope.dimension_count_swa", narrow_, 2, narrow_) / 2);
    const std::vector<bool> sliding = r.sliding_layers(params_.layers, 6);
    for (int64_t i = 0; i < params_.layers; ++i) {
      caches_.push_back(cache_of(r, i, sliding[static_cast<size_t>(i)]));
      output_scales_.push_back(read_output_scale(r, i));
    }
  }

  void build(ModelBuilder& m) const override {
    const int64_t width = params_.embedding;
    const std::string table = kMainPrefix + std::string("token_embd.weight");
    m.g.set_unit({UnitKind::embedding, -1});
    const float scale = std::sqrt(static_cast<float>(main_width_));
    const ValueId token =
        m.g.add(op::Embed{scale},
                {m.g.input(StepInput::tokens), m.weight(table, {main_width_, info_.vocabulary})});
    m.g.set_unit({UnitKind::attention, 0});
    const ValueId hidden = m.g.input(StepInput::hidden, 0, main_width_);
    ValueId x = m.linear(m.g.add(op::Concat{}, {token, hidden}), "nextn.pre_projection", width);
    for (int64_t layer = 0; layer < params_.layers; ++layer) {
      const auto norm = [&](ValueId v, const char* name) {
        return m.rms_norm(v, block_name(layer, name) + ".weight", params_.eps);
      };
      m.g.set_unit({UnitKind::attention, static_cast<int32_t>(layer)});
      ValueId h = attend(m, norm(x, "attn_norm"), layer);
      if (layer + 1 == params_.layers) {  // from here on only the rows whose logits are wanted
        h = m.select_outputs(h);
        x = m.select_outputs(x);
      }
      x = m.add(x, norm(h, "post_attention_norm"));
      m.g.set_unit({UnitKind::feed_forward, static_cast<int32_t>(layer)});
      h = feed_forward_block(m, norm(x, "ffn_norm"), layer,
                             params_.feed_forward[static_cast<size_t>(layer)],
                             {op::Glu::Kind::gelu_tanh});
      x = m.add(x, norm(h, "post_ffw_norm"));
      const float last = output_scales_[static_cast<size_t>(layer)];
      if (last != 1.0f) x = m.g.add(op::Scale{last}, {x});
    }
    x = m.rms_norm(x, "output_norm.weight", params_.eps);
    m.g.set_unit({UnitKind::output, -1});
    m.g.output(m.linear(x, "nextn.post_projection", main_width_), "hidden");
    m.g.output(m.linear(x, "token_embd", info_.vocabulary), "logits");
  }

 private:
  static Status bad(const HparamReader& r, const std::string& what) {
    return error(StatusCode::bad_file, "{}: {}", r.metadata().source(), what);
  }

  void check_main(HparamReader& r, const ModelInfo& main) const {
    if (main.architecture != "gemma4") {
      r.set_error(bad(r, fmt::format("the draft model is for models of architecture 'gemma4', this "
                                     "one has '{}'",
                                     main.architecture)));
    }
    const int64_t width = r.get_int("embedding_length_out", main.embedding, 1, INT32_MAX);
    if (width != main.embedding) {
      r.set_error(bad(r, fmt::format("key '{}.embedding_length_out': the draft model is for hidden "
                                     "states of {} elements, those of the model have {}",
                                     info_.architecture, width, main.embedding)));
    }
    const Weight* table = r.source().find("token_embd.weight");
    if (table != nullptr && table->desc.shape[1] != main.vocabulary) {
      r.set_error(bad(r, fmt::format("tensor 'token_embd.weight': expected rows for the {} tokens "
                                     "of the model, found {}",
                                     main.vocabulary, table->desc.shape[1])));
    }
  }

  int64_t head_of(const KvLayerShape& shape) const {
    return shape.window > 0 ? narrow_ : params_.head_dim;
  }

  /// The last layer of the main model that stores keys of a kind: its index in kv_layers.
  int32_t cache_of(HparamReader& r, int64_t layer, bool slides) const {
    const std::vector<KvLayerShape>& shapes = info_.kv_layers;
    auto found = static_cast<int32_t>(shapes.size()) - 1;
    for (; found >= 0; --found) {
      const KvLayerShape& shape = shapes[static_cast<size_t>(found)];
      if (shape.heads > 0 && (shape.window > 0) == slides) break;
    }
    const KvLayerShape shape = found < 0 ? KvLayerShape() : shapes[static_cast<size_t>(found)];
    if (shape.heads == 0 || shape.k_dim != head_of(shape) || params_.heads % shape.heads != 0) {
      r.set_error(
          bad(r, fmt::format("layer {} has {} heads of {} elements {} a sliding window, and "
                             "the model has no keys that fit: {} heads of {} elements",
                             layer, params_.heads, slides ? narrow_ : params_.head_dim,
                             slides ? "with" : "without", shape.heads, shape.k_dim)));
    }
    return found;
  }

  ValueId attend(ModelBuilder& m, ValueId x, int64_t layer) const {
    const int32_t cache = caches_[static_cast<size_t>(layer)];
    const KvLayerShape& shape = info_.kv_layers[static_cast<size_t>(cache)];
    const int64_t head = head_of(shape);
    ValueId q = m.linear(x, block_name(layer, "attn_q"), params_.heads * head);
    q = m.rms_norm(m.g.split_heads(q, params_.heads), block_name(layer, "attn_q_norm.weight"),
                   params_.eps);
    q = m.rope(q, op::Rope::Style::half_split, shape.window > 0 ? 1 : 0);
    const op::Attention attention{cache, 1.0f, 0.0f, shape.window};
    return m.linear(m.attention(q, kNoValue, kNoValue, attention), block_name(layer, "attn_output"),
                    params_.embedding);
  }

  DecoderParams params_;
  int64_t main_width_ = 0;
  int64_t narrow_ = 0;           ///< elements of a head with a sliding window
  std::vector<int32_t> caches_;  ///< by layer: index in kv_layers
  std::vector<float> output_scales_;
};

Result<std::unique_ptr<Model>> draft(const WeightSource& source, const ModelInfo& main,
                                     std::vector<int64_t>&) {
  HparamReader r(source, HparamReader::Part::draft);
  auto model = std::make_unique<Gemma4Assistant>(r, main);
  if (!r.status().ok()) return tl::unexpected(r.status());
  return model;
}

}  // namespace

const ArchDef& gemma4_assistant_arch() {
  static constexpr const char* kNames[] = {"gemma4-assistant"};
  static const ArchDef def{
      .names = kNames, .create = nullptr, .checkpoints = {}, .map = nullptr, .draft = draft};
  return def;
}

}  // namespace infer
