#include "engine/model/draft_source.h"

#include <utility>

namespace infer {

DraftSource::DraftSource(const WeightSource& main, std::unique_ptr<WeightSource> own)
    : main_(main), own_(std::move(own)) {
  const auto add = [&](const WeightSource& source, const std::string& prefix) {
    for (const Weight& weight : source.weights()) {
      places_.push_back(weight.place);
      weights_.push_back({prefix + weight.name, weight.desc, {0, weights_.size()}});
    }
  };
  weights_.reserve(main_.weights().size() + own_->weights().size());
  places_.reserve(weights_.capacity());
  add(main_, kMainPrefix);
  add(*own_, "");
}

const WeightSource& DraftSource::source_of(const TensorPlace& place) const {
  return place.offset < main_.weights().size() ? main_ : *own_;
}

Status DraftSource::read(const TensorPlace& place, uint64_t offset,
                         std::span<std::byte> out) const {
  return source_of(place).read(place_of(place), offset, out);
}

Result<std::span<const std::byte>> DraftSource::map(const TensorPlace& place,
                                                    uint64_t bytes) const {
  return source_of(place).map(place_of(place), bytes);
}

}  // namespace infer
