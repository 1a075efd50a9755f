#include "engine/model/joined_source.h"

namespace infer {

void JoinedSource::add(const WeightSource& source, const std::string& prefix) {
  for (const Weight& weight : source.weights()) {
    weights_.push_back({prefix + weight.name, weight.desc, {0, weights_.size()}});
    origins_.push_back({&source, weight.place});
  }
}

Status JoinedSource::read(const TensorPlace& place, uint64_t offset,
                          std::span<std::byte> out) const {
  const Origin& from = origin(place);
  return from.source->read(from.place, offset, out);
}

bool JoinedSource::can_map(const TensorPlace& place) const {
  const Origin& from = origin(place);
  return from.source->can_map(from.place);
}

Result<std::span<const std::byte>> JoinedSource::map(const TensorPlace& place,
                                                     uint64_t bytes) const {
  const Origin& from = origin(place);
  return from.source->map(from.place, bytes);
}

}  // namespace infer
