// Pages as files have them: in the canonical layout, whatever devices keep the layers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/kv/kv_cache.h"

namespace infer {

/// How pages of a cache become pages of the canonical layout and the reverse. A canonical page of a
/// window holds what the cache has in one page of each of its kinds with that window.
class PageForm {
 public:
  /// `canonical`: with all layers in one place; `kept`: the cache's.
  PageForm(KvLayout canonical, KvLayout kept);

  const KvLayout& layout() const { return canonical_; }
  size_t kinds() const { return canonical_.kinds.size(); }
  int64_t page_bytes(size_t kind) const { return canonical_.kinds[kind].page_bytes; }
  /// Kinds of the cache.
  size_t kept_kinds() const { return stretches_.size(); }
  /// The cache's kinds that a canonical kind is made of.
  std::span<const size_t> parts(size_t kind) const { return parts_[kind]; }
  /// The first page of a canonical kind that a sequence has on all devices.
  int64_t first_page(const KvCache& cache, KvCache::SequenceId id, size_t kind) const;

  // `bytes`: page_bytes(kind); what of a canonical page no layer uses is zero.
  Status read(const KvCache& cache, KvCache::SequenceId id, size_t kind, int64_t page,
              std::span<std::byte> bytes);
  Status write(KvCache& cache, KvCache::SequenceId id, size_t kind, int64_t page,
               std::span<const std::byte> bytes);

 private:
  /// A layer's keys and values in a page.
  struct Stretch {
    int64_t canonical = 0;
    int64_t kept = 0;
    int64_t bytes = 0;
  };

  KvLayout canonical_;
  std::vector<std::vector<size_t>> parts_;       ///< by canonical kind
  std::vector<std::vector<Stretch>> stretches_;  ///< by the cache's kind
  std::vector<std::byte> page_;                  ///< of the cache
};

}  // namespace infer
