// Shapes of published models as data: what an architecture's files look like, and each model's
// sizes. A further model is one entry of synth_shapes.cpp.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/weights/metadata.h"
#include "infer/jobs.hpp"

namespace infer {

/// What the files of an architecture have in common: which tensors there are and their names.
struct SynthArch {
  enum class QkNorm : uint8_t { none, per_head, whole };
  std::string_view name;              ///< general.architecture
  bool fused_qkv = false;             ///< "attn_qkv" in place of three
  bool fused_gate_up = false;         ///< "ffn_up" holds the gate's rows too
  bool qkv_bias = false;              ///< on attn_q, attn_k, attn_v
  bool output_bias = false;           ///< on attn_output
  bool expert_bias = false;           ///< on the router and the experts
  bool sinks = false;                 ///< "attn_sinks"
  QkNorm qk_norm = QkNorm::none;      ///< "attn_q_norm", "attn_k_norm"
  bool pre_norms = true;              ///< "attn_norm", ffn_norm
  bool post_norms = false;            ///< "post_attention_norm", "post_ffw_norm"
  const char* ffn_norm = "ffn_norm";  ///< name of the norm before the feed-forward part
  float eps = 1e-5f;
};

/// Multi-head latent attention (DeepSeek-V2): widths of its parts, q projected directly.
struct SynthLatent {
  int64_t latent = 0;  ///< what is cached of keys and values; 0: the model has plain attention
  int64_t nope = 0, rope = 0, value = 0;  ///< of a head
};

struct SynthShape {
  std::string name;
  std::string_view arch = "llama";
  int64_t layers = 0, embedding = 0, feed_forward = 0, heads = 0, kv_heads = 0;
  int64_t head_dim = 0;  ///< 0: embedding / heads, and no key says it
  int64_t tokens = 0;
  int64_t context = 2048;
  bool tied = false;  ///< the embedding is the output matrix too
  int64_t experts = 0, experts_used = 0;
  int64_t expert_feed_forward = 0;  ///< 0: feed_forward
  int64_t shared_experts = 0;       ///< each as wide as the others
  int64_t dense_layers = 0;         ///< leading ones, without experts
  float rope_base = 10000;
  float rotated = 1;       ///< part of a head that is rotated
  float rope_factor = 0;   ///< of Llama 3.1's frequency scaling, as a tensor; 0: none
  bool long_rope = false;  ///< Phi's two tensors of factors
  SynthLatent latent = {};
  /// Further keys, without the architecture's prefix.
  std::vector<std::pair<const char*, MetaValue>> keys = {};

  const SynthArch& architecture() const;
  int64_t head_size() const { return head_dim != 0 ? head_dim : embedding / heads; }
  int64_t expert_width() const {
    return expert_feed_forward != 0 ? expert_feed_forward : feed_forward;
  }
  /// Elements of a head that are rotated.
  int64_t rope_size() const {
    if (latent.latent > 0) return latent.rope;
    return static_cast<int64_t>(rotated * static_cast<float>(head_size())) / 2 * 2;
  }
  bool has_experts(int64_t layer) const { return experts > 0 && layer >= dense_layers; }
};

/// All of them, the last one "custom": Llama's architecture without sizes.
std::span<const SynthShape> all_synth_shapes();

/// The named shape with the sizes of the options in place of its own. invalid_argument if the sizes
/// make no model.
Result<SynthShape> synth_shape(const SynthOptions& options);

/// Least tokens of a made-up vocabulary.
inline constexpr int64_t kMinSynthTokens = 3 + 256;

}  // namespace infer
