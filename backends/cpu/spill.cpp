#include "backends/cpu/spill.h"

#include <algorithm>

#include "engine/core/platform/mapping.h"

namespace infer::cpu {

size_t Spill::add_layer() {
  layers_.emplace_back();
  return layers_.size() - 1;
}

void Spill::add(const std::byte* data, int64_t bytes, bool ahead) {
  // Whole pages, which a mapping consists of: not one byte beyond it is touched.
  const auto page = static_cast<uintptr_t>(os::page_bytes());
  const uintptr_t at = reinterpret_cast<uintptr_t>(data);
  const uintptr_t begin = at / page * page;
  const uintptr_t end = (at + static_cast<uintptr_t>(bytes) + page - 1) / page * page;
  layers_.back().push_back(
      {reinterpret_cast<const std::byte*>(begin), static_cast<int64_t>(end - begin), ahead});
}

void Spill::finish() {
  for (Layer& layer : layers_) {
    std::ranges::sort(layer, {}, &Stretch::begin);
    Layer joined;
    for (const Stretch& stretch : layer) {
      Stretch* last = joined.empty() ? nullptr : &joined.back();
      if (last != nullptr && stretch.begin <= last->begin + last->bytes &&
          stretch.ahead == last->ahead) {
        last->bytes = std::max(last->bytes,
                               static_cast<int64_t>(stretch.begin - last->begin) + stretch.bytes);
      } else {
        joined.push_back(stretch);
      }
    }
    layer = std::move(joined);
  }
}

void Spill::enter(size_t layer) const {
  if (layer > 0) drop(layers_[layer - 1]);
  if (layer + 1 < layers_.size()) ask(layers_[layer + 1]);
}

void Spill::leave() const {
  if (layers_.empty()) return;
  drop(layers_.back());
  ask(layers_.front());
}

void Spill::drop(const Layer& layer) {
  for (const Stretch& s : layer) os::drop_pages(s.begin, static_cast<size_t>(s.bytes));
}

void Spill::ask(const Layer& layer) {
  for (const Stretch& s : layer) {
    if (s.ahead) os::read_pages(s.begin, static_cast<size_t>(s.bytes));
  }
}

}  // namespace infer::cpu
