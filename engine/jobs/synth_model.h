// What a synthetic model consists of: shapes by name, element types by name, tensors, vocabulary.
#pragma once

#include <string>
#include <vector>

#include "engine/core/tensor_desc.h"
#include "engine/weights/metadata.h"
#include "infer/infer.hpp"

namespace infer {

struct SynthShape {
  std::string name;
  int64_t layers = 0, embedding = 0, feed_forward = 0, heads = 0, kv_heads = 0, tokens = 0;
  int64_t experts = 0, experts_used = 0;
  int64_t context = 2048;
  float rope_base = 10000;
  float rope_factor = 0;  ///< of Llama 3.1's frequency scaling; 0: none
  bool tied = false;      ///< the embedding is the output matrix too

  int64_t head_dim() const { return embedding / heads; }
};

/// The named shape with the sizes of the options in place of its own. invalid_argument if the sizes
/// make no model.
Result<SynthShape> synth_shape(const SynthOptions& options);

/// Which type each weight gets.
struct SynthTypes {
  DType base = DType::q4_0;
  bool mix = false;  ///< more bits where llama.cpp's _K_M mixes have them
};
/// unsupported if the type cannot be encoded, invalid_argument if it is none for weights.
Result<SynthTypes> synth_types(const std::string& name);

struct SynthTensor {
  enum class Fill : uint8_t { normal, ones, rope_factors };
  std::string name;
  TensorDesc desc;
  Fill fill = Fill::normal;
  float deviation = 0;
};
Result<std::vector<SynthTensor>> synth_tensors(const SynthShape& shape, const SynthTypes& types);

/// Llama 3.1's factors for each pair of a head, [head_dim / 2].
std::vector<float> rope_factors(const SynthShape& shape);

/// Keys of the architecture.
void add_shape_metadata(const SynthShape& shape, Metadata& metadata);
/// A SentencePiece vocabulary: <unk>, <s>, </s>, 256 bytes, then distinct made-up words.
void add_made_up_vocabulary(int64_t tokens, Metadata& metadata);
/// Least tokens of a made-up vocabulary.
inline constexpr int64_t kMinSynthTokens = 3 + 256;

}  // namespace infer
