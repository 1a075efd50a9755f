// LoRA adapters of a model (Hu et al. 2021). To a product with the weight W of a base tensor an
// adapter adds scale · alpha / rank · B·(A·x), where rank is the number of rows of A.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/model/joined_source.h"

namespace infer {

/// End the names of A [k, rank] and B [rank, n], which begin with the base tensor's; of experts
/// [k, rank, experts] and [rank, n, experts]. A of the token table is [rank, vocabulary].
inline constexpr const char* kLoraA = ".lora_a";
inline constexpr const char* kLoraB = ".lora_b";

/// A model without this matrix multiplies with its table of tokens in place of it. An adapter may
/// change that product alone.
inline constexpr const char* kOutputMatrix = "output.weight";
inline constexpr const char* kTokenTable = "token_embd.weight";

/// What the names of an adapter's tensors begin with in an AdaptedSource: "adapter.0.".
std::string adapter_prefix(size_t adapter);

/// A model's weights, then those of adapters. So the model's weights have the same indices as
/// without adapters. Metadata and tokenizer are the model's.
class AdaptedSource final : public JoinedSource {
 public:
  AdaptedSource(std::unique_ptr<WeightSource> base,
                std::vector<std::unique_ptr<WeightSource>> adapters);

  const Metadata& metadata() const override { return base_->metadata(); }
  const TokenizerSpec& tokenizer() const override { return base_->tokenizer(); }

  const WeightSource& base() const { return *base_; }
  const std::vector<std::unique_ptr<WeightSource>>& adapters() const { return adapters_; }
  /// By adapter: its alpha; 0: the rank.
  std::vector<float> alphas() const;

 private:
  std::unique_ptr<WeightSource> base_;
  std::vector<std::unique_ptr<WeightSource>> adapters_;
};

/// An adapter's file, or PEFT's directory (peft.h), checked against the model that it is for.
/// Errors: those of open_model(); bad_file if it is no adapter, or one of another model;
/// unsupported for kinds of adapters that the engine does not know.
Result<std::unique_ptr<WeightSource>> open_adapter(const std::string& path,
                                                   const WeightSource& base);

}  // namespace infer
