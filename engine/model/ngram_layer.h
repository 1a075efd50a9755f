// The layer of a model that n-grams are added to: its keys, and how checkpoints hold it.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/model/checkpoint.h"
#include "engine/model/hparams.h"
#include "engine/model/ngram.h"

namespace infer {

struct NgramLayer {
  int64_t layer = 0;
  int64_t taps = 2;  ///< of the convolution of what is added, each spec.tokens() tokens apart
  NgramSpec spec;
};

/// Reads the keys "ple.*" and looks for the table "per_layer_token_embd". Nothing if there is no
/// such layer. Failures stay in the reader: among them more than one layer, and heads beyond the
/// table.
std::optional<NgramLayer> read_ngram_layer(HparamReader& reader, const DecoderParams& params);

/// Writes the keys and the tensors of a checkpoint's layer, if it has one. The constants of the
/// hashes are those that it stores, or what transformers makes of the configuration.
void map_ngram_layer(CheckpointMap& m);

}  // namespace infer
