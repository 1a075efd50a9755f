// Blocks that architectures share: grouped-query attention, gated feed-forward, experts.
#pragma once

#include <array>

#include "engine/model/builder.h"

namespace infer {

/// Self-attention with the projections "attn_q", "attn_k", "attn_v" (or "attn_qkv" of all three),
/// "attn_output", their biases and "attn_sinks" where present.
struct AttentionBlock {
  enum class QkNorm : uint8_t {
    none,
    plain,        ///< RMSNorm of each head without weights
    per_head,     ///< RMSNorm of each head, weights [head_dim]
    each_head,    ///< RMSNorm of each head, weights [head_dim, heads]
    whole,        ///< RMSNorm over all heads at once, weights [heads · head_dim]
    layer,        ///< LayerNorm of each head, weights [head_dim, heads]
    whole_layer,  ///< LayerNorm over all heads at once, weights [heads · head_dim]
  };
  int64_t layer = 0;
  int32_t cache = 0;  ///< index of its keys and values in ModelInfo::kv_layers
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t value_dim = 0;
  float scale = 0;    ///< of the scores
  float softcap = 0;  ///< of the scores; 0: none
  int32_t window = 0;
  bool chunked = false;  ///< the window is a chunk: op::Attention
  bool rotate = true;    ///< RoPE on q and k
  op::Rope::Style style = op::Rope::Style::interleaved;
  int32_t rope = 0;               ///< which of the model's RoPE kinds
  int32_t q_rope = -1;            ///< that of the queries, if it is another or keys have none
  float clamp = 0;                ///< queries, keys and values are held within ±clamp; 0: not
  QkNorm qk_norm = QkNorm::none;  ///< "attn_q_norm", "attn_k_norm"
  bool norm_last = false;         ///< the norms of heads come after RoPE
  /// Where the rows are of a gate, which multiplies what the heads make.
  enum class Gate : uint8_t {
    none,
    with_queries,  ///< in "attn_q": for each head those of its queries, then those of the gate
    apart,         ///< "attn_gate"
    of_heads,      ///< "attn_gate" with one row a head, for all that the head makes
  };
  Gate gate = Gate::none;
  op::Glu::Kind gate_activation = op::Glu::Kind::sigmoid;
  float eps = 1e-5f;
  bool sub_norm = false;        ///< "attn_sub_norm": an RMSNorm of what all heads make
  float output_scale = 1.0f;    ///< multiplies what the heads make
  int64_t width = 0;            ///< elements of what the block makes; 0: as many as of x
  int32_t chosen_block = 1;     ///< op::Attention
  bool chosen_by_head = false;  ///< op::Attention
  float alibi = 0;              ///< op::Attention
  float alibi_factor = 1.0f;    ///< op::Attention
};

/// The q, k and v [n, 1, rows] of x, from one projection or three.
std::array<ValueId, 3> project_qkv(ModelBuilder& m, ValueId x, const AttentionBlock& block);

/// What all heads make, x [value_dim·heads, 1, rows], times the activation of `gate`: a number for
/// each element, or for each head, [heads, 1, rows].
ValueId gate_heads(ModelBuilder& m, ValueId x, ValueId gate, int64_t heads,
                   op::Glu::Kind activation = op::Glu::Kind::sigmoid);

/// x [embedding, 1, rows] → [block.width, 1, rows], or the same shape. `chosen`: as for
/// ModelBuilder::attention().
ValueId attention_block(ModelBuilder& m, ValueId x, const AttentionBlock& block,
                        ValueId chosen = kNoValue);

/// down(gelu(up(x))) with "ffn_up" and "ffn_down".
ValueId gelu_block(ModelBuilder& m, ValueId x, int64_t layer, int64_t width,
                   op::Gelu::Kind kind = op::Gelu::Kind::exact);

/// down(max(up(x), 0)²) with "ffn_up" and "ffn_down". So et al. 2021.
ValueId squared_relu_block(ModelBuilder& m, ValueId x, int64_t layer, int64_t width);

/// down(glu(gate(x), up(x))) with "ffn_gate", "ffn_up", "ffn_down"; without "ffn_gate", "ffn_up"
/// holds the gate's rows before its own. `suffix` names a variant, e.g. "_shexp". `limit`, if not
/// 0: with SiLU, what is multiplied is held within it, the gate behind its activation, or before it
/// (`limits_gate`).
ValueId feed_forward_block(ModelBuilder& m, ValueId x, int64_t layer, int64_t width,
                           const op::Glu& glu, const char* suffix = "", float limit = 0,
                           bool limits_gate = false);

/// A router "ffn_gate_inp" (with the selection bias "exp_probs_b" where present, or with a table of
/// which experts each token takes, "ffn_gate_tid2eid") and the experts
/// "ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"; with shared_width > 0 a further feed-forward
/// "ffn_*_shexp" that every token takes is added, multiplied by the sigmoid of "ffn_gate_inp_shexp"
/// where present. The experts and their sum are a unit of their own
/// (UnitKind::experts); the rest belongs to the layer's feed-forward.
struct ExpertsBlock {
  int64_t experts = 0;
  int64_t width = 0;
  int64_t shared_width = 0;
  op::MoeRoute route;
  float limit = 0;             ///< of experts, as of feed_forward_block()
  float shared_limit = 0;      ///< of the further feed-forward
  bool weights_input = false;  ///< weights multiply what the one expert takes, not what it makes
  bool limits_gate = false;    ///< limits hold for what goes into the gate's activation
};

/// What the experts make of x, where the router's logits [experts, 1, rows] are computed elsewhere.
/// The gate's rows may lie before the others in "ffn_gate_up_exps".
ValueId routed_experts(ModelBuilder& m, ValueId x, ValueId logits, int64_t layer,
                       const ExpertsBlock& block, const op::Glu& glu);

ValueId experts_block(ModelBuilder& m, ValueId x, int64_t layer, const ExpertsBlock& block,
                      const op::Glu& glu);

}  // namespace infer
