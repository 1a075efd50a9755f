// Kimi delta attention (Kimi Team 2025): a gated delta net whose decay differs by channel of a key,
// with convolutions of queries, keys and values apart; and how checkpoints hold it.
#pragma once

#include <vector>

#include "engine/model/blocks.h"
#include "engine/model/checkpoint.h"
#include "engine/model/hparams.h"

namespace infer {

struct KimiDelta {
  int64_t heads = 1;
  int64_t dim = 1;  ///< elements of a key and of a value
  int64_t taps = 2;
  float bound = 0;    ///< op::DeltaScan
  float eps = 1e-5f;  ///< of the norm of what the heads make
  bool flat = false;  ///< "ssm_a" is [heads] in place of [1, heads]

  KimiDelta() = default;
  /// Its keys "kda.*" and "ssm.conv_kernel". Failures stay in the reader.
  KimiDelta(HparamReader& reader, const DecoderParams& params);

  int64_t width() const { return heads * dim; }
  /// Where the convolution number i of queries, keys and values has its part of the state.
  int64_t conv_at(int64_t i) const { return i * conv_state(taps, width()); }
  /// Elements of the recurrent state.
  int64_t state() const { return conv_at(3) + scan_state(heads, dim, dim); }

  /// What `attention` has to say for project_qkv().
  void set_heads(AttentionBlock& attention) const;
};

/// x [embedding, 1, rows] → the same shape, with the layer's tensors "attn_q", "attn_k", "attn_v",
/// "attn_output" and "ssm_*". The decay's and the gate's projections are one matrix each
/// ("ssm_f_a"; "ssm_g_a" or "ssm_g") or two ("ssm_f_a", "ssm_f_b"). `cache`: the state's index in
/// ModelInfo::kv_layers.
ValueId kimi_delta_block(ModelBuilder& m, ValueId x, const AttentionBlock& attention,
                         const KimiDelta& net, int32_t cache);

/// Finds the keys of these families' configurations under the names that other families have.
void rename_delta_keys(CheckpointMap& m);

/// Reads the sizes from a checkpoint's configuration ("linear_num_heads", "linear_head_dim",
/// "linear_conv_kernel_dim") and writes their keys, and maps the layers that `delta` marks, whose
/// tensors lie in "self_attn.". Writes how many heads are cached by layer: one where not marked.
/// `flat`: KimiDelta::flat.
void map_kimi_delta(CheckpointMap& m, const std::vector<bool>& delta, bool flat = false);

/// Which of a checkpoint's layers have it: those that "layer_types" calls "linear_attention"; empty
/// if there is no such list.
std::vector<bool> linear_layers(CheckpointMap& m);

/// The same, or lists of numbers from 1 ("linear_attn_config"), one of which there has to be.
std::vector<bool> listed_delta_layers(CheckpointMap& m);

}  // namespace infer
