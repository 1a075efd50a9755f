// Which element type each weight of a synthetic model gets.
#pragma once

#include <string>

#include "engine/core/dtype.h"
#include "engine/jobs/synth_shape.h"

namespace infer {

/// One type, or a mix as llama.cpp's quantiser makes it.
struct SynthTypes {
  DType base = DType::q4_0;
  bool mix = false;  ///< q4_k_m, q5_k_m: more bits where they help most

  /// The type of a block's matrix, e.g. "attn_v", before its row length is looked at.
  DType of_block(const SynthShape& shape, std::string_view part, int64_t layer) const;
  /// Of the output matrix, or of an embedding in its place.
  DType of_output() const;
  /// llama.cpp's number for general.file_type; −1: it has none.
  int32_t file_type() const;
};

/// unsupported if the type cannot be encoded, invalid_argument if it is none for weights.
Result<SynthTypes> parse_synth_types(const std::string& name);

/// The type that takes the place of one whose blocks do not divide the row, as in llama.cpp.
DType fitting_type(DType type, int64_t row);

}  // namespace infer
