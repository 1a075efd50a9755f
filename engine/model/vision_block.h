// The encoder's layers that vision towers share.
#pragma once

#include <optional>
#include <string>

#include "engine/model/builder.h"
#include "engine/model/hparams.h"

namespace infer {

/// "v.blk.7.attn_q".
std::string vision_name(int64_t layer, const char* part);

/// A pre-norm layer of an encoder in which all patches of an image see each other:
///   x ← x + attention(norm(x));  x ← x + down(activation(up(norm(x))))
/// with "v.blk.N." ln1, attn_q, attn_k, attn_v (or attn_qkv), attn_out, ln2, ffn_up, ffn_down and
/// their biases where present; with `gated` down(glu(gate, up)).
struct VisionBlock {
  static constexpr float kQkEps = 1e-6f;
  int64_t width = 0;
  int64_t heads = 1;
  int64_t kv_heads = 0;  ///< of keys and values; 0: as many
  int64_t feed_forward = 0;
  bool swapped = false;  ///< "ffn_up" and "ffn_down" have each other's names, as in older files
  float eps = 1e-6f;
  bool rms_norms = false;  ///< in place of LayerNorm
  op::Gelu::Kind activation = op::Gelu::Kind::exact;
  std::optional<op::Glu::Kind> gated;  ///< in place of `activation`, with "ffn_gate"
  bool rotate = false;                 ///< RoPE 0 on q and k
  bool qk_norms = false;               ///< RMSNorm of all heads' q and k, "attn_q_norm", of kQkEps
  bool head_norms = false;             ///< RMSNorm of each head's q and k, "attn_q_norm", of eps
  float limit = 0;                     ///< of what `gated` multiplies, gates from above; 0: none
  bool scaled = false;                 ///< what is added to x is multiplied with "ls1" and "ls2"
  int32_t division = 0;                ///< of the image's patches: text_attention()
  op::Rope::Style style = op::Rope::Style::half_split;
  /// Rows are results, and the lists of StepInput::output_rows from this one on say where the text
  /// of each begins and ends. 0: rows are patches.
  int32_t lists = 0;
};

/// `clip.vision.` embedding_length, feed_forward_length (or, where it is missing or 0 as in some
/// files, the width that the first layer has), attention.head_count and layer_norm_epsilon; sets
/// what all towers say of themselves in `info`: architecture, layers, width, no cache.
VisionBlock read_vision_block(HparamReader& r, ModelInfo& info);

/// SwiGLU of both, held within ±limit, gates from above alone; 0: not held.
ValueId limited_glu(ModelBuilder& m, ValueId gate, ValueId up, op::Glu::Kind kind, float limit);

/// The first half of a layer: x + attention(norm(x)). Names begin with `prefix`.
ValueId vision_attention(ModelBuilder& m, ValueId x, const std::string& prefix,
                         const VisionBlock& block);

/// x [width, 1, patches] → the same shape. Sets the units of the nodes.
ValueId vision_layer(ModelBuilder& m, ValueId x, int64_t layer, const VisionBlock& block);

}  // namespace infer
