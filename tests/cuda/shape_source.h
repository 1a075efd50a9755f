// A model in the shape of a known one, without the bytes of its weights: for plans and counts.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/jobs/synth_model.h"
#include "engine/model/arch.h"
#include "engine/model/builder.h"
#include "engine/weights/weight_source.h"

namespace infer::test {

class ShapeSource final : public WeightSource {
 public:
  /// `shape` as `infer synth` knows it: "llama-3.1-8b"; `type` likewise: "q4_k_m".
  ShapeSource(const std::string& shape, const std::string& type) : metadata_(shape) {
    SynthOptions options;
    options.shape = shape;
    const SynthShape known = synth_shape(options).value();
    const TypeMix types = parse_synth_type(type).value();
    add_shape_metadata(known, types, metadata_);
    const std::vector<SynthTensor> tensors = synth_tensors(known, types).value();
    for (const SynthTensor& tensor : tensors) {
      weights_.push_back({tensor.name, tensor.desc, {}});
    }
  }

  const Metadata& metadata() const override { return metadata_; }
  std::span<const Weight> weights() const override { return weights_; }
  const TokenizerSpec& tokenizer() const override { return tokenizer_; }
  Status read(const TensorPlace&, uint64_t, std::span<std::byte>) const override {
    return error(StatusCode::unsupported, "a shape has no weights");
  }
  bool can_map(const TensorPlace&) const override { return false; }
  Result<std::span<const std::byte>> map(const TensorPlace&, uint64_t) const override {
    return fail(StatusCode::unsupported, "a shape has no weights");
  }

 private:
  Metadata metadata_;
  std::vector<Weight> weights_;
  TokenizerSpec tokenizer_;
};

}  // namespace infer::test
