// The decoder that most architectures are variants of: for every layer
//   x ← x + s·post(attention(pre(x)));  x ← x + s·post(feed_forward(pre(x)))
// then a norm and the projection to logits. An architecture's file reads its keys and fills in what
// it does differently; one with another attention overrides attend(), one with another data flow
// derives from Model itself.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/model/blocks.h"
#include "engine/model/hparams.h"

namespace infer {

class DecoderModel : public Model {
 public:
  /// Reads the usual keys: every layer gets the same attention, with RoPE 0 in the given style, a
  /// scale of 1/√head_dim, and experts where a layer has a router. Failures stay in the reader.
  /// `recurrent`: layers may have no key-value heads; such a layer has no attention, and nothing in
  /// ModelInfo::kv_layers unless add_state() says so. `turns`: else the model has no RoPE.
  DecoderModel(HparamReader& reader, op::Rope::Style style, bool recurrent = false,
               bool turns = true);

  void build(ModelBuilder& m) const override;

  /// Whether this is a draft head: of HparamReader::Part::head. build() then calls build_head().
  bool is_head() const { return params.first_layer > 0; }
  /// A layer "nextn" behind the model's own, which takes a token and the hidden state before it:
  /// decoder_head.cpp.
  void build_head(ModelBuilder& m) const;

  // What a variant may change before the model is used.

  DecoderParams params;
  std::vector<AttentionBlock> attention;  ///< by layer
  std::vector<int32_t> states;  ///< by layer: index in ModelInfo::kv_layers; −1: without a state
  ExpertsBlock experts;
  op::Glu glu;
  float embedding_scale = 1.0f;
  bool embedding_norm = false;      ///< an RMSNorm without weights on the embedding
  std::string embedding_norm_name;  ///< of one with weights, as layers have; empty: none
  float residual_scale = 1.0f;
  float logit_scale = 1.0f;     ///< multiplies the logits
  float logit_softcap = 0.0f;   ///< 0: none
  bool pre_norms = true;        ///< attn_norm_name and ffn_norm_name
  bool post_norms = false;      ///< post_attention_name and post_ffn_name
  float post_eps = 0;           ///< of these; 0: that of the others
  bool layer_norms = false;     ///< LayerNorm in place of RMSNorm
  bool plain_norms = false;     ///< these have neither weights nor biases
  bool parallel = false;        ///< both parts take attn_norm_name of x, and x gets the sum of both
  bool parallel_norms = false;  ///< the same, but the feed-forward takes ffn_norm_name of x
  bool normed_residual = false;  ///< for each part: x ← s·pre(x) + part(pre(x))
  std::string attn_norm_name = "attn_norm";
  std::string ffn_norm_name = "ffn_norm";
  std::string post_attention_name = "post_attention_norm";
  std::string post_ffn_name = "post_ffw_norm";
  std::string output_norm_name = "output_norm";
  /// Of a draft head: its last norm is a LayerNorm with this epsilon; 0: as the others.
  float head_layer_norm = 0;
  /// Of a draft head: "eh_proj" has the columns of the hidden state before those of the token.
  bool head_hidden_first = false;

  /// Adds a row of "position_embd" to each token's embedding. Failures stay in the reader.
  void add_positions(HparamReader& reader);

  /// The attention of a layer: x [embedding, 1, rows] → the same shape.
  virtual ValueId attend(ModelBuilder& m, ValueId x, int64_t layer) const;

  /// The feed-forward of a layer: x [embedding, 1, rows] → the same shape. Experts, where it has a
  /// router.
  virtual ValueId feed_forward(ModelBuilder& m, ValueId x, int64_t layer) const;

  ModelInfo& mutable_info() { return info_; }
  /// Sets a layer's window in its attention and in the cache's shape.
  void set_window(int64_t layer, int32_t window);
  /// Layers have a window and RoPE, or neither: every `period`-th one, unless the file says which.
  void set_windows_with_rope(HparamReader& reader, int64_t period);
  /// Gives these layers the window, and a RoPE of their own without scaling: its base is
  /// "rope.freq_base_swa", the elements that it turns "rope.dimension_count_swa". `base`: that of
  /// files that do not say.
  void set_windows_with_own_rope(HparamReader& reader, const std::vector<bool>& sliding,
                                 double base);
  /// Reads the limit that queries, keys and values are held within ("attention.clamp_kqv").
  void read_clamp(HparamReader& reader);
  /// Scores get biases by distance in place of RoPE: op::Attention. `factor` multiplies the slopes.
  void set_alibi(float most, float factor = 1.0f);
  /// The same with what the file says ("attention.max_alibi_bias"), or else `absent`. Where that is
  /// 0, nothing, or RoPE if the model `turns` then.
  void read_alibi(HparamReader& reader, float absent, bool turns = false);
  /// Takes the attention from these layers.
  void drop_attention(const std::vector<bool>& layers);
  bool attends(int64_t layer) const { return params.kv_heads[static_cast<size_t>(layer)] > 0; }
  /// Gives a layer a recurrent state of so many float32 elements.
  void add_state(int64_t layer, int64_t elements);

  /// The model, or the reader's failure.
  static Result<std::unique_ptr<Model>> finish(std::unique_ptr<DecoderModel> model,
                                               const HparamReader& reader);

 private:
  ValueId weighted(ModelBuilder& m, ValueId x, const std::string& name, float eps) const;
  ValueId pre_norm(ModelBuilder& m, ValueId x, int64_t layer, const std::string& name) const;
  ValueId post_norm(ModelBuilder& m, ValueId x, int64_t layer, const std::string& name) const;
  /// x after a layer; `last`: only the rows whose logits are wanted. Where the hidden states of all
  /// rows are computed apart, `rest` gets these.
  ValueId add_layer(ModelBuilder& m, ValueId x, int64_t layer, bool last,
                    ValueId* rest = nullptr) const;
  ValueId head_norm(ModelBuilder& m, ValueId x) const;
  void output_logits(ModelBuilder& m, ValueId x) const;
};

}  // namespace infer
