// Copies pages of a sequence between its cache and memory, a few at a time between the engine's
// steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/session/engine_impl.h"
#include "engine/session/page_form.h"

namespace infer {

/// Bytes that are read, hashed or copied at a time; of pages at least one.
inline constexpr int64_t kPartBytes = int64_t{4} << 20;

/// A page of a sequence.
struct PagePlace {
  size_t kind;
  int64_t page;
};

/// Kind by kind, the pages of a sequence of `length` tokens. `first`: the first page, by kind.
std::vector<PagePlace> places_of(const PageForm& form, std::span<const int64_t> first,
                                 int64_t length);

/// Calls use(places, bytes) for parts of the places, each with a buffer as large as their pages.
using UsePart =
    std::function<Status(std::span<const PagePlace> places, std::span<std::byte> bytes)>;
Status for_each_part(const PageForm& form, std::span<const PagePlace> places, const UsePart& use);

/// Calls copy(place, bytes) on the engine's thread for each page and its place in the buffer. False
/// if the sequence no longer has its `length` tokens in the cache: others needed the memory.
using CopyPage = std::function<Status(const PagePlace& place, std::span<std::byte> bytes)>;
Result<bool> copy_part(Engine::Impl& engine, const PageForm& form, KvCache::SequenceId id,
                       int64_t length, std::span<const PagePlace> places,
                       std::span<std::byte> buffer, const CopyPage& copy);

/// Zeroes what a page holds behind its first `used` slots: it may be another's. `first`: the page's
/// first slot.
void clear_behind(const KvLayout& layout, size_t kind, int64_t first, int64_t used,
                  std::span<std::byte> page);

}  // namespace infer
