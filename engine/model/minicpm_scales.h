// The constant factors of MiniCPM's models (Hu et al. 2024, section 3), and their RoPE.
#pragma once

#include "engine/model/checkpoint.h"
#include "engine/model/decoder.h"

namespace infer {

/// Reads the factors of embeddings, residuals and logits, and LongRoPE's two sets. Files without
/// factors have those of the first models. Failures stay in the reader.
void read_minicpm_scales(HparamReader& reader, DecoderModel& model);

/// What a configuration means that leaves the factors out.
struct MiniCpmScales {
  double embedding = 1.0;  ///< scale_emb
  double depth = 1.0;      ///< scale_depth
  int64_t base = 1;        ///< dim_model_base
};

/// Writes the keys of the factors. Comes after CheckpointMap::begin().
void map_minicpm_scales(CheckpointMap& m, const MiniCpmScales& absent);

}  // namespace infer
