// Several sources as one: their weights one after the other.
#pragma once

#include <string>
#include <vector>

#include "engine/weights/weight_source.h"

namespace infer {

class JoinedSource : public WeightSource {
 public:
  std::span<const Weight> weights() const override { return weights_; }
  Status read(const TensorPlace& place, uint64_t offset, std::span<std::byte> out) const override;
  bool can_map(const TensorPlace& place) const override;
  Result<std::span<const std::byte>> map(const TensorPlace& place, uint64_t bytes) const override;

 protected:
  /// Adds the weights of `source`, which lives as long as this, under names that begin with
  /// `prefix`.
  void add(const WeightSource& source, const std::string& prefix);

 private:
  /// Where a weight is in its own source.
  struct Origin {
    const WeightSource* source;
    TensorPlace place;
  };
  const Origin& origin(const TensorPlace& place) const {
    return origins_[static_cast<size_t>(place.offset)];
  }

  std::vector<Weight> weights_;  ///< TensorPlace::offset is the index
  std::vector<Origin> origins_;
};

}  // namespace infer
