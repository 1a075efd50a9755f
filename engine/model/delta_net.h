// The gated delta net (Yang et al. 2024) of Qwen3-Next and its successors, and how their
// checkpoints hold it.
#pragma once

#include <vector>

#include "engine/model/builder.h"
#include "engine/model/checkpoint.h"
#include "engine/model/hparams.h"

namespace infer {

/// Its sizes, under the keys "ssm.*".
struct DeltaNet {
  int64_t key_heads = 1;
  int64_t heads = 1;
  int64_t dim = 1;  ///< elements of a key and of a value
  int64_t taps = 2;
  bool grouped = false;                      ///< value heads that share a key head lie together
  op::Glu::Kind gate = op::Glu::Kind::silu;  ///< on what the heads make
  float eps = 1e-5f;                         ///< of the norm before it

  DeltaNet() = default;
  /// Failures stay in the reader.
  DeltaNet(HparamReader& reader, float eps);

  int64_t keys() const { return key_heads * dim; }
  int64_t values() const { return heads * dim; }
  int64_t channels() const { return 2 * keys() + values(); }
  int64_t before_scan() const { return conv_state(taps, channels()); }
  /// Elements of the recurrent state.
  int64_t state() const { return before_scan() + scan_state(heads, dim, dim); }
};

/// x [embedding, 1, rows] → the same shape, with the layer's tensors "attn_qkv", "attn_gate" and
/// "ssm_*". `cache`: the state's index in ModelInfo::kv_layers.
ValueId delta_net_block(ModelBuilder& m, ValueId x, int64_t layer, const DeltaNet& net,
                        int32_t cache);

/// Which of `layers` layers are recurrent: the flags "attention.recurrent_layers", or all but every
/// "full_attention_interval"-th.
std::vector<bool> recurrent_layers(HparamReader& reader, int64_t layers);

/// Maps the delta nets among a checkpoint's first `layers` layers, and writes their keys: those
/// that "layer_types" calls "linear_attention", or all but every "full_attention_interval"-th.
/// `turns`: in the model, value heads that share a key head do not lie together, as they do in the
/// checkpoint, but in turns: first the first one of each key head. Returns which layers they are.
std::vector<bool> map_delta_nets(CheckpointMap& m, bool turns, int64_t layers);

/// The experts and the gated shared one as these families' configurations and checkpoints have
/// them.
void map_gated_experts(CheckpointMap& m);

}  // namespace infer
