// Blocks that architectures share: grouped-query attention, gated feed-forward, experts.
#pragma once

#include "engine/model/builder.h"

namespace infer {

/// Self-attention with separate projections "attn_q", "attn_k", "attn_v", "attn_output" and their
/// biases where present.
struct AttentionBlock {
  int64_t layer = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t value_dim = 0;
  int64_t embedding = 0;                ///< width of the result
  float scale = 0;                      ///< of the scores
  float softcap = 0;
  int32_t window = 0;
  bool rotate = true;                   ///< RoPE on q and k
  op::Rope::Style style = op::Rope::Style::interleaved;
  int32_t rope = 0;                     ///< which of the model's RoPE kinds
  bool head_norm = false;               ///< RMSNorm of each q and k head: attn_q_norm, attn_k_norm
  float eps = 1e-5f;
};

ValueId attention_block(ModelBuilder& m, ValueId x, const AttentionBlock& block);

/// down(glu(gate(x)) · up(x)) with "ffn_gate", "ffn_up", "ffn_down".
ValueId feed_forward_block(ModelBuilder& m, ValueId x, int64_t layer, int64_t width,
                           const op::Glu& glu = {});

/// A router "ffn_gate_inp" and experts "ffn_gate_exps", "ffn_up_exps", "ffn_down_exps".
struct ExpertsBlock {
  int64_t layer = 0;
  int64_t experts = 0;
  int64_t width = 0;
  op::MoeRoute route;
  op::Glu glu;
};

ValueId experts_block(ModelBuilder& m, ValueId x, const ExpertsBlock& block);

}  // namespace infer
