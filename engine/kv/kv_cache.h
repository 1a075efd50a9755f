// The key–value cache: pages of 64 tokens in slabs, and each sequence's table of pages.
// reserve → (a step writes) → commit, or rollback. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/backend/device.h"

namespace infer {

/// Which pages are free, and how many hold each of the others.
class BlockPool {
 public:
  explicit BlockPool(int32_t pages);
  int32_t size() const { return static_cast<int32_t>(references_.size()); }
  int32_t free_pages() const { return static_cast<int32_t>(free_.size()); }
  /// A page with one reference; −1 if there is none left.
  int32_t acquire();
  void retain(int32_t page);
  /// The page is free again after its last reference.
  void release(int32_t page);

 private:
  std::vector<int32_t> references_;
  std::vector<int32_t> free_;  ///< a stack: the lowest ids on top at first
};

/// The pages of one sequence, in order, and how many tokens they hold.
struct BlockTable {
  std::vector<int32_t> pages;
  int64_t length = 0;    ///< tokens committed
  int64_t reserved = 0;  ///< tokens there is room for
};

/// Allocates slabs of pages on one device and hands pages to sequences.
class KvCache {
 public:
  /// Allocates pages × page_bytes in slabs. out_of_memory or device on failure.
  static Result<std::unique_ptr<KvCache>> create(Device& device, int64_t page_bytes, int32_t pages);

  using SequenceId = int32_t;
  SequenceId add_sequence();
  void remove_sequence(SequenceId id);

  /// Makes room for `tokens` more than are committed. does_not_fit if the pages are not there;
  /// nothing has changed then.
  Status reserve(SequenceId id, int64_t tokens);
  /// The first `tokens` of those reserved have been written.
  void commit(SequenceId id, int64_t tokens);
  /// Forgets all beyond `length` tokens, and what was reserved.
  void rollback(SequenceId id, int64_t length);

  int64_t length(SequenceId id) const { return table(id).length; }
  const BlockTable& table(SequenceId id) const { return tables_.at(id); }
  /// Tokens that could still be reserved for this sequence.
  int64_t room(SequenceId id) const;
  int64_t capacity() const { return int64_t{pool_.size()} * kPageTokens; }

  /// The pages as a step over these sequences sees them; valid until the next call of pages() or
  /// reserve(). Row i of the tables belongs to ids[i].
  KvPages pages(std::span<const SequenceId> ids);

 private:
  KvCache(int32_t pages, int32_t pages_per_slab) : pool_(pages), pages_per_slab_(pages_per_slab) {}

  BlockPool pool_;
  int32_t pages_per_slab_;
  std::vector<std::unique_ptr<Buffer>> slabs_;
  std::vector<std::byte*> slab_addresses_;
  std::unordered_map<SequenceId, BlockTable> tables_;
  std::vector<int32_t> step_tables_;
  SequenceId next_id_ = 0;
};

}  // namespace infer
