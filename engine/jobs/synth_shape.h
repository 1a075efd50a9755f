// Shapes of published models as data: what an architecture's files look like, and each model's
// sizes. A further model is one entry of synth_shapes*.cpp.
#pragma once

#include <algorithm>
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
  enum class QkNorm : uint8_t { none, per_head, each_head, whole };
  std::string_view name;             ///< general.architecture
  bool fused_qkv = false;            ///< "attn_qkv" in place of three
  bool fused_gate_up = false;        ///< "ffn_up" holds the gate's rows too
  bool positions = false;            ///< "position_embd", of the context
  bool embedding_norm = false;       ///< "token_embd_norm"
  bool doubled_width = false;        ///< "feed_forward_length" is twice the width
  bool experts_beside = false;       ///< a feed-forward of the model's width, and experts
  bool feed_forward_beside = false;  ///< experts, and a feed-forward of its own width
  bool qkv_bias = false;             ///< on attn_q, attn_k, attn_v
  bool output_bias = false;          ///< on attn_output
  bool expert_bias = false;          ///< on the router and the experts
  bool sinks = false;                ///< "attn_sinks"
  QkNorm qk_norm = QkNorm::none;     ///< "attn_q_norm", "attn_k_norm"
  bool pre_norms = true;             ///< "attn_norm", ffn_norm
  bool sub_norms = false;            ///< "attn_sub_norm", "ffn_sub_norm"
  bool post_norms = false;           ///< post_attention_norm, "post_ffw_norm"
  const char* post_attention_norm = "post_attention_norm";
  const char* ffn_norm = "ffn_norm";  ///< name of the norm before the feed-forward part; null: none
  const char* output_norm = "output_norm";  ///< "": none
  bool gated_attention = false;             ///< "attn_q" has a gate of every head too
  bool gate_apart = false;                  ///< "attn_gate"
  bool head_gates = false;                  ///< likewise, of latent attention: for each head
  bool narrow_gates = false;                ///< gates of Kimi delta attention by two matrices
  bool flat_decays = false;                 ///< its "ssm_a" is [heads] in place of [1, heads]
  bool gated_shared_expert = false;         ///< "ffn_gate_inp_shexp"
  bool step_norms = false;                  ///< "ssm_dt_norm", "ssm_b_norm", "ssm_c_norm"
  bool one_part = false;                    ///< a layer is attention, Mamba or experts alone
  bool plain_experts = false;               ///< without gates, with a bias for the choice
  float eps = 1e-5f;
};

/// Multi-head latent attention (DeepSeek-V2): widths of its parts.
struct SynthLatent {
  int64_t latent = 0;   ///< what is cached of keys and values; 0: the model has plain attention
  int64_t queries = 0;  ///< of the vector that queries are made of; 0: they are projected directly
  int64_t nope = 0, rope = 0, value = 0;  ///< of a head
  // Of the index that chooses the tokens that queries see (DeepSeek-V3.2); 0: there is none.
  int64_t index_heads = 0, index_key = 0, index_count = 0;
  /// Tokens of a block. With plain attention `index_count` blocks are chosen for each key head.
  int64_t index_block = 0;
  int64_t streams = 0;  ///< of the residual; 0: it is one
};

/// Recurrent layers: their sizes as the keys "ssm.*" and "shortconv.*" name them.
struct SynthRecurrent {
  /// A layer each: '*' attention, 'D' gated delta net, 'K' Kimi delta attention, 'L' lightning
  /// attention, 'C' short convolution, 'S' Mamba, 'P' that of PLaMo 2, 'M' Mamba-2, 'E' experts
  /// alone. Repeated as often as needed. Empty: all have attention.
  std::string_view layers;
  int64_t taps = 4;
  int64_t heads = 0;   ///< time_step_rank: of Mamba no heads, but it divides the channels here
  int64_t head = 0;    ///< elements of a value
  int64_t groups = 0;  ///< group_count: key heads of delta nets
  int64_t state = 0;   ///< state_size: elements of a key

  int64_t inner() const { return heads * head; }
  int64_t channels() const { return inner() + 2 * groups * state; }
};

/// Attention to the last tokens and to blocks of them, on several streams (DeepSeek-V4).
struct SynthPooled {
  int64_t queries = 0;   ///< of the vector that queries are made of; 0: the model has none of this
  int64_t window = 128;  ///< tokens
  int64_t group_heads = 8;  ///< of a group, for the output
  int64_t output = 1024;    ///< what a group's output is projected to
  int64_t streams = 4;
  int64_t hashed = 3;  ///< leading layers with a table of experts
  int64_t index_heads = 64, index_key = 128, index_count = 512;
  /// A layer each: 'W' the last tokens alone, 'S' short blocks of which an index chooses some, 'B'
  /// long blocks. Repeated as often as needed.
  std::string_view layers = "W";

  static constexpr int64_t kShort = 4;  ///< tokens of a block
  static constexpr int64_t kLong = 128;
  int64_t block(int64_t layer) const {
    const char kind = layers[static_cast<size_t>(layer) % layers.size()];
    return kind == 'S' ? kShort : kind == 'B' ? kLong : 0;
  }
};

/// Layers that differ as those of Gemma 4 do; `period` 0: they do not.
struct SynthWindow {
  int64_t period = 0;  ///< each so many layers one attends to all; the others have a window
  int64_t head = 0;    ///< elements of a head where there is a window
  int64_t shared = 0;  ///< last layers, which store no keys and values
  int64_t token = 0;   ///< elements of the token's embedding of every layer
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
  SynthRecurrent recurrent = {};
  SynthWindow window = {};
  SynthPooled pooled = {};
  /// One layer more, with attention, that predicts the token after the next one.
  bool next_token = false;
  /// Further keys, without the architecture's prefix.
  std::vector<std::pair<const char*, MetaValue>> keys = {};

  const SynthArch& architecture() const;
  int64_t head_size() const { return head_dim != 0 ? head_dim : embedding / heads; }
  int64_t head_size(int64_t layer) const {
    const bool slides = window.period > 0 && (layer + 1) % window.period != 0;
    return slides ? window.head : head_size();
  }
  int64_t expert_width() const {
    return expert_feed_forward != 0 ? expert_feed_forward : feed_forward;
  }
  /// Elements of a head that are rotated.
  int64_t rope_size() const {
    if (latent.latent > 0) return latent.rope;
    return static_cast<int64_t>(rotated * static_cast<float>(head_size())) / 2 * 2;
  }
  /// As SynthRecurrent::layers names it.
  char kind(int64_t layer) const {
    const std::string_view kinds = recurrent.layers;
    return kinds.empty() ? '*' : kinds[static_cast<size_t>(layer) % kinds.size()];
  }
  // Of `pooled`.
  int64_t output_groups() const { return std::max<int64_t>(1, heads / pooled.group_heads); }
  int64_t hashed_layers() const { return std::min(pooled.hashed, layers - 1); }
  /// Streams of the residual that are mixed; 0: it is one.
  int64_t streams() const { return pooled.queries > 0 ? pooled.streams : latent.streams; }
  bool has_experts(int64_t layer) const { return experts > 0 && layer >= dense_layers; }
};

// Parts of them: synth_shapes_*.cpp.
std::vector<SynthShape> earlier_shapes();
std::vector<SynthShape> newer_shapes();
std::vector<SynthShape> recurrent_shapes();
std::vector<SynthShape> other_shapes();

/// All of them, the last one "custom": Llama's architecture without sizes.
std::span<const SynthShape> all_synth_shapes();

/// The named shape with the sizes of the options in place of its own. invalid_argument if the sizes
/// make no model.
Result<SynthShape> synth_shape(const SynthOptions& options);

/// Least tokens of a made-up vocabulary.
inline constexpr int64_t kMinSynthTokens = 3 + 256;

}  // namespace infer
