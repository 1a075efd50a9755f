#include "engine/session/page_copy.h"

#include <algorithm>
#include <utility>

#include "engine/core/checked.h"

namespace infer {

std::vector<PagePlace> places_of(const PageForm& form, std::span<const int64_t> first,
                                 int64_t length) {
  std::vector<PagePlace> places;
  for (size_t k = 0; k < first.size(); ++k) {
    for (int64_t page = first[k]; page < form.layout().kinds[k].table_pages(length); ++page) {
      places.push_back({k, page});
    }
  }
  return places;
}

Status for_each_part(const PageForm& form, std::span<const PagePlace> places, const UsePart& use) {
  std::vector<std::byte> buffer;
  while (!places.empty()) {
    size_t count = 0;
    int64_t bytes = 0;
    do {
      bytes += form.page_bytes(places[count++].kind);
    } while (count < places.size() && bytes + form.page_bytes(places[count].kind) <= kPartBytes);
    buffer.resize(static_cast<size_t>(bytes));
    INFER_CHECK(use(places.first(count), std::span(buffer)));
    places = places.subspan(count);
  }
  return {};
}

Result<bool> copy_part(Engine::Impl& engine, const PageForm& form, KvCache::SequenceId id,
                       int64_t length, std::span<const PagePlace> places,
                       std::span<std::byte> buffer, const CopyPage& copy) {
  bool there = false;
  Status status;
  engine.thread->call([&] {
    there = engine.cache->length(id) == length;
    for (size_t i = 0; there && i < places.size() && status.ok(); ++i) {
      const auto bytes = static_cast<size_t>(form.page_bytes(places[i].kind));
      status = copy(places[i], buffer.first(bytes));
      buffer = buffer.subspan(bytes);
    }
  });
  INFER_CHECK_R(std::move(status));
  return there;
}

void clear_behind(const KvLayout& layout, size_t kind, int64_t first, int64_t used,
                  std::span<std::byte> page) {
  if (layout.kinds[kind].state) return;
  // In each group of `rows` rows, clear all but the first `kept` ones.
  const auto clear = [&](int64_t begin, int64_t end, int64_t row, int64_t rows, int64_t kept) {
    for (int64_t head = begin; head + row * rows <= end; head += row * rows) {
      std::ranges::fill(page.subspan(static_cast<size_t>(head + row * kept),
                                     static_cast<size_t>(row * (rows - kept))),
                        std::byte{0});
    }
  };
  auto end = static_cast<int64_t>(page.size());
  for (size_t i = layout.layers.size(); i-- > 0;) {
    const KvLayerLayout& layer = layout.layers[i];
    if (static_cast<size_t>(layer.kind) != kind) continue;
    const int64_t last = (first + used) / layer.tokens * layer.tokens - 1;  // that ends a block
    const int64_t kept = last < first ? 0 : layer.row(last) + 1;
    clear(layer.v_offset, end, layer.v_row, layer.rows, kept);
    clear(layer.k_offset, layer.v_offset, layer.k_element > 0 ? layer.k_element : layer.k_row,
          layer.rows, kept);
    end = layer.k_offset;
  }
}

}  // namespace infer
