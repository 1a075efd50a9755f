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
  DecoderModel(HparamReader& reader, op::Rope::Style style);

  void build(ModelBuilder& m) const override;

  // What a variant may change before the model is used.

  DecoderParams params;
  std::vector<AttentionBlock> attention;  ///< by layer
  ExpertsBlock experts;
  op::Glu glu;
  float embedding_scale = 1.0f;
  float residual_scale = 1.0f;
  float logit_scale = 1.0f;    ///< multiplies the logits
  float logit_softcap = 0.0f;  ///< 0: none
  bool pre_norms = true;       ///< "attn_norm", and ffn_norm_name
  bool post_norms = false;     ///< "post_attention_norm", "post_ffw_norm"
  std::string ffn_norm_name = "ffn_norm";

  /// The attention of a layer: x [embedding, 1, rows] → the same shape.
  virtual ValueId attend(ModelBuilder& m, ValueId x, int64_t layer) const;

  ModelInfo& mutable_info() { return info_; }
  /// Sets a layer's window in its attention and in the cache's shape.
  void set_window(int64_t layer, int32_t window);

  /// The model, or the reader's failure.
  static Result<std::unique_ptr<Model>> finish(std::unique_ptr<DecoderModel> model,
                                               const HparamReader& reader);
};

}  // namespace infer
