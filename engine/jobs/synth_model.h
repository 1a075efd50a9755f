// The contents of a synthetic model: tensors, keys, a vocabulary.
#pragma once

#include <string>
#include <vector>

#include "engine/core/tensor_desc.h"
#include "engine/jobs/synth_shape.h"
#include "engine/jobs/type_mix.h"
#include "engine/weights/metadata.h"

namespace infer {

struct SynthTensor {
  enum class Fill : uint8_t { normal, ones, decays, rope_factors, experts };
  std::string name;
  TensorDesc desc;
  Fill fill = Fill::normal;
  float deviation = 0;
};
Result<std::vector<SynthTensor>> synth_tensors(const SynthShape& shape, const TypeMix& types);

/// Llama 3.1's factors for each pair of a head, [head_size / 2].
std::vector<float> rope_factors(const SynthShape& shape);

/// Keys of the architecture.
void add_shape_metadata(const SynthShape& shape, const TypeMix& types, Metadata& metadata);
/// A SentencePiece vocabulary: <unk>, <s>, </s>, 256 bytes, then distinct made-up words.
void add_made_up_vocabulary(int64_t tokens, Metadata& metadata);

}  // namespace infer
