// Multi-head latent attention (DeepSeek-V2, section 2.1): keys and values are projections of one
// small vector a token.
//
// Files hold the up-projection of keys and values apart and by head ("attn_k_b" transposed,
// "attn_v_b"), or as one matrix ("attn_kv_b", files before April 2025). In the first case the key
// projection is moved over to the query (V2, appendix C): every head attends to the latent vectors
// themselves, which are all that the cache stores. In the second keys and values are written out.
#pragma once

#include <vector>

#include "engine/model/blocks.h"
#include "engine/model/builder.h"
#include "engine/model/checkpoint.h"
#include "engine/model/hparams.h"
#include "engine/model/slot_index.h"

namespace infer {

struct LatentBlock {
  int64_t heads = 1;
  bool absorbed = false;  ///< queries meet the latent vectors themselves
  int64_t q_latent = 0;   ///< 0: queries are projected directly
  int64_t latent = 1;
  int64_t key = 1;    ///< elements of a head's key: nope + rope
  int64_t value = 1;  ///< elements of a head's value
  int64_t rope = 0;   ///< of the part of the key that all heads share
  int64_t nope = 1;
  float scale = 0;  ///< of the scores
  op::Rope::Style style = op::Rope::Style::interleaved;
  bool rotate = true;  ///< RoPE on the shared part and that of queries
  /// "attn_gate", of each head or of each element that it makes.
  AttentionBlock::Gate gate = AttentionBlock::Gate::none;
  int32_t keys_rope = 0;  ///< which of the model's RoPE kinds turns keys
  int32_t window = 0;     ///< op::Attention
  /// Epsilon of the norms attn_q_a_norm and attn_kv_a_norm, whatever the file gives for the other
  /// norms: as in transformers. llama.cpp uses the file's for all.
  float inner_eps = 1e-6f;
  int32_t turned = 0;  ///< which of the model's RoPE kinds turns queries
  int32_t still = -1;  ///< which one scales the rest of them by their position; −1: none

  /// Reads its keys. `layer`: one that has it. Failures stay in the reader.
  LatentBlock(HparamReader& reader, const DecoderParams& params, int64_t layer);

  /// Sets what a layer caches. It keeps its number.
  void set_cache(KvLayerShape& layer) const;
  /// The same of all.
  void set_caches(std::vector<KvLayerShape>& layers) const;
};

/// x [embedding, 1, rows] → the same shape. `cache`: index in ModelInfo::kv_layers. `index`: null
/// where queries see all tokens. With the layer's "attn_sinks" and "attn_k_norm", of the part of
/// keys that RoPE turns, where present.
ValueId latent_block(ModelBuilder& m, ValueId x, int64_t layer, const LatentBlock& block,
                     int32_t cache, const SlotIndex* index = nullptr);

/// The keys of a checkpoint's latent attention, and its tensors in every layer that has them: keys
/// and values of every head apart, and the keys transposed; not `apart`: as one matrix. `halves`:
/// rows that RoPE turns together lie half of the turned ones apart in the checkpoint.
void map_latent(CheckpointMap& m, bool apart = true, bool halves = false);

}  // namespace infer
