// The file of a head that drafts for another file's model, together with what it takes from that.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/weights/weight_source.h"

namespace infer {

/// Begins the names of the main model's weights in a DraftSource.
inline constexpr const char* kMainPrefix = "main.";

/// The weights of the main model, in its order and under names that begin with kMainPrefix, then
/// those of the head's file. So the main model's weights have the same indices in both sources.
/// Metadata and tokenizer are those of the head's file.
class DraftSource final : public WeightSource {
 public:
  /// `main` lives longer.
  DraftSource(const WeightSource& main, std::unique_ptr<WeightSource> own);

  const Metadata& metadata() const override { return own_->metadata(); }
  std::span<const Weight> weights() const override { return weights_; }
  const TokenizerSpec& tokenizer() const override { return own_->tokenizer(); }

  Status read(const TensorPlace& place, uint64_t offset, std::span<std::byte> out) const override;
  Result<std::span<const std::byte>> map(const TensorPlace& place, uint64_t bytes) const override;

  /// The head's file alone.
  const WeightSource& own() const { return *own_; }

 private:
  const WeightSource& source_of(const TensorPlace& place) const;
  /// The place of the same tensor in its own source.
  const TensorPlace& place_of(const TensorPlace& place) const {
    return places_[static_cast<size_t>(place.offset)];
  }

  const WeightSource& main_;
  std::unique_ptr<WeightSource> own_;
  std::vector<Weight> weights_;      ///< TensorPlace::offset is the index
  std::vector<TensorPlace> places_;  ///< by index: in the weight's own source
};

}  // namespace infer
