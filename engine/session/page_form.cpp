#include "engine/session/page_form.h"

#include <algorithm>
#include <cstring>

namespace infer {
namespace {

/// The end of a layer's part of its page: the beginning of the next layer of its kind.
int64_t end_of(const KvLayout& layout, size_t layer) {
  const int32_t kind = layout.layers[layer].kind;
  for (size_t next = layer + 1; next < layout.layers.size(); ++next) {
    if (layout.layers[next].kind == kind) return layout.layers[next].k_offset;
  }
  return layout.kinds[static_cast<size_t>(kind)].page_bytes;
}

}  // namespace

PageForm::PageForm(KvLayout canonical, KvLayout kept)
    : canonical_(std::move(canonical)),
      parts_(canonical_.kinds.size()),
      stretches_(kept.kinds.size()) {
  for (size_t layer = 0; layer < canonical_.layers.size(); ++layer) {
    const KvLayerLayout& to = canonical_.layers[layer];
    const KvLayerLayout& from = kept.layers[layer];
    const auto kind = static_cast<size_t>(from.kind);
    std::vector<size_t>& parts = parts_[static_cast<size_t>(to.kind)];
    if (std::ranges::find(parts, kind) == parts.end()) parts.push_back(kind);
    // After the last layer a device's page may have bytes that align the next page.
    const int64_t bytes =
        std::min(end_of(canonical_, layer) - to.k_offset, end_of(kept, layer) - from.k_offset);
    stretches_[kind].push_back({to.k_offset, from.k_offset, bytes});
  }
}

int64_t PageForm::first_page(const KvCache& cache, KvCache::SequenceId id, size_t kind) const {
  int64_t first = 0;
  for (const size_t part : parts_[kind]) first = std::max(first, cache.first_page(id, part));
  return first;
}

Status PageForm::read(const KvCache& cache, KvCache::SequenceId id, size_t kind, int64_t page,
                      std::span<std::byte> bytes) {
  std::ranges::fill(bytes, std::byte{0});
  for (const size_t part : parts_[kind]) {
    page_.resize(static_cast<size_t>(cache.page_bytes(part)));
    INFER_CHECK(cache.read_page(id, part, page, page_));
    for (const Stretch& s : stretches_[part]) {
      std::memcpy(bytes.data() + s.canonical, page_.data() + s.kept, static_cast<size_t>(s.bytes));
    }
  }
  return {};
}

Status PageForm::write(KvCache& cache, KvCache::SequenceId id, size_t kind, int64_t page,
                       std::span<const std::byte> bytes) {
  for (const size_t part : parts_[kind]) {
    page_.assign(static_cast<size_t>(cache.page_bytes(part)), std::byte{0});
    for (const Stretch& s : stretches_[part]) {
      std::memcpy(page_.data() + s.kept, bytes.data() + s.canonical, static_cast<size_t>(s.bytes));
    }
    INFER_CHECK(cache.write_page(id, part, page, page_));
  }
  return {};
}

}  // namespace infer
