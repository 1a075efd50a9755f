// The mixer of Mamba-2 (Dao & Gu 2024), as hybrid families use it, and how their checkpoints hold
// it.
#pragma once

#include <string>

#include "engine/model/builder.h"
#include "engine/model/checkpoint.h"
#include "engine/model/hparams.h"

namespace infer {

/// Its sizes, under the keys "ssm.*".
struct Mamba2Block {
  int64_t inner = 1;  ///< elements of all heads
  int64_t state = 1;  ///< rows of a head's state
  int64_t heads = 1;
  int64_t groups = 1;  ///< heads of a group are written and read along the same vectors
  int64_t taps = 2;
  float eps = 1e-5f;

  Mamba2Block() = default;
  /// Failures stay in the reader.
  Mamba2Block(HparamReader& reader, float eps);

  int64_t channels() const { return inner + 2 * groups * state; }
  int64_t before_scan() const { return conv_state(taps, channels()); }
  /// Elements of the recurrent state.
  int64_t state_elements() const { return before_scan() + scan_state(heads, state, inner / heads); }
};

/// x [embedding, 1, rows] → the same shape, with the layer's tensors "ssm_*". Without "ssm_norm"
/// what the gate lets through has no norm. `cache`: the state's index in ModelInfo::kv_layers.
ValueId mamba2_block(ModelBuilder& m, ValueId x, int64_t layer, const Mamba2Block& block,
                     int32_t cache);

/// A checkpoint's sizes of Mamba-2.
struct Mamba2Sizes {
  int64_t heads = 1;
  int64_t head = 1;
  int64_t state = 1;
  int64_t groups = 1;
  int64_t taps = 4;
  bool scaled = false;  ///< the family itself places the projections
};
/// Those of the keys "mamba_*" that several families have.
Mamba2Sizes read_mamba2_sizes(CheckpointMap& m);
/// Refuses a time_step_limit that limits steps.
void require_open_steps(CheckpointMap& m);
/// Writes the keys "ssm.*".
void map_mamba2(CheckpointMap& m, const Mamba2Sizes& sizes);
/// The tensors of a layer's mixer, which is called `part` there ("mamba").
void map_mamba2_layer(CheckpointMap& m, const Mamba2Sizes& sizes, int64_t layer,
                      const std::string& part);

}  // namespace infer
