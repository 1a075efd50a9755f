// The mixer of Mamba (Gu & Dao 2023), as Mamba models and hybrid families use it, and how their
// checkpoints hold it.
#pragma once

#include <string>

#include "engine/model/builder.h"
#include "engine/model/checkpoint.h"
#include "engine/model/hparams.h"

namespace infer {

/// Its sizes, under the keys "ssm.*".
struct MambaBlock {
  int64_t inner = 1;  ///< channels, of which each has a state of its own
  int64_t state = 1;  ///< elements of a channel's state
  int64_t rank = 1;   ///< of what the channels' steps are made of
  int64_t taps = 2;
  float eps = 1e-5f;    ///< of the norms "ssm_dt_norm", "ssm_b_norm" and "ssm_c_norm"
  bool normed = false;  ///< there are these norms also where a layer has no weights of them

  MambaBlock() = default;
  /// Failures stay in the reader.
  MambaBlock(HparamReader& reader, float eps);

  int64_t before_scan() const { return conv_state(taps, inner); }
  /// Elements of the recurrent state.
  int64_t state_elements() const { return before_scan() + scan_state(1, state, inner); }
};

/// x [embedding, 1, rows] → the same shape, with the layer's tensors "ssm_*". `cache`: the state's
/// index in ModelInfo::kv_layers.
ValueId mamba_block(ModelBuilder& m, ValueId x, int64_t layer, const MambaBlock& block,
                    int32_t cache);

/// What a token's product "ssm_x" holds, each part behind a norm where the layer has one.
struct MambaParts {
  ValueId low;    ///< [rank, 1, rows]: what the steps are made of
  ValueId write;  ///< [state, 1, rows]
  ValueId read;   ///< the same
};
/// Of block.rank, state, eps and normed; x [inner, 1, rows]. `low_last`: it lies behind the others.
/// Names of norms may lack the ending.
MambaParts mamba_parts(ModelBuilder& m, ValueId x, int64_t layer, const MambaBlock& block,
                       bool low_last = false);

/// Writes the keys "ssm.*". `part`: what the mixer is called in a checkpoint ("mixer"), `layer`:
/// one that has it. Its widths are those of its tensors.
void map_mamba(CheckpointMap& m, int64_t layer, const std::string& part, int64_t state,
               int64_t taps);
/// The tensors of a layer's mixer.
void map_mamba_layer(CheckpointMap& m, int64_t layer, const std::string& part, int64_t state,
                     int64_t taps);

}  // namespace infer
