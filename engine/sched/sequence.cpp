#include <algorithm>

#include "engine/sched/scheduler.h"

namespace infer {

void Sequence::reserve_one() {
  if (tokens.size() == tokens.capacity()) tokens.reserve(2 * tokens.size() + 1);
  if (generated.capacity() <= tokens.size()) generated.reserve(2 * tokens.size() + 1);
}

void Sequence::append_generated(int32_t token) {
  reserve_one();
  generated.resize(tokens.size(), false);
  tokens.push_back(token);
  generated.push_back(true);
}

void Sequence::append_given(std::span<const int32_t> given, bool few,
                            std::span<const ModelImage> given_images) {
  const size_t begin = tokens.size();
  tokens.insert(tokens.end(), given.begin(), given.end());
  size_t at = begin;
  for (const ModelImage& image : given_images) {
    while (at < tokens.size() && !image.rows->begins(std::span(tokens).subspan(at))) ++at;
    images.push_back({static_cast<int64_t>(at), image.rows->count(), image.rows});
    at += image.rows->tokens.size();
  }
  if (!few) return;
  generated.resize(begin, false);
  generated.resize(tokens.size(), true);
  few_begin_ = static_cast<int64_t>(begin);
  few_end_ = static_cast<int64_t>(tokens.size());
}

void Sequence::cut(size_t length) {
  tokens.resize(std::min(length, tokens.size()));
  generated.resize(std::min(length, generated.size()));
  const auto size = static_cast<int64_t>(tokens.size());
  while (!images.empty() && images.back().first >= size) images.pop_back();
  if (!images.empty())
    images.back().count = std::min(images.back().count, size - images.back().first);
}

bool Sequence::within_image(int64_t token) const {
  return std::ranges::any_of(images, [&](const PlacedImage& image) {
    return token >= image.first && token + 1 < image.first + image.count;
  });
}

Position Sequence::position(int64_t token) const {
  int64_t ahead = 0;  // places by which positions are before the indices
  for (const auto& [first, count, rows] : images) {
    if (token < first) break;
    if (!rows->axes) continue;
    const int64_t lines = rows->count() / rows->columns;
    const auto at = static_cast<int32_t>(first - ahead);
    if (const int64_t row = token - first; row < count) {
      return {at, at + static_cast<int32_t>(row / rows->columns),
              at + static_cast<int32_t>(row % rows->columns)};
    }
    ahead += count - std::max<int64_t>(lines, rows->columns);
  }
  return static_cast<int32_t>(token - ahead);
}

}  // namespace infer
