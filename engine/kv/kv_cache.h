// The key–value cache: pages of 64 tokens, and each sequence's tables of them, one for each kind of
// layers. reserve → (a step writes) → commit, or rollback.
//
// A full page is known by the tokens it holds and those before it, so that sequences that begin
// alike share pages, and what a sequence leaves behind serves later ones until the memory is needed
// (vLLM, Kwon et al. 2023; SGLang's radix tree, Zheng et al. 2024). What is shared is never
// written: who goes on from the middle of such a page gets a copy. Since a row's keys and values
// depend on the tokens up to it alone, this changes no result.
//
// Where pages do not suffice the cache grows if it may. Otherwise sequences that are not in use
// give theirs up, the longest unused first; their length is then 0, and their tokens are computed
// again.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/kv/block_pool.h"
#include "engine/kv/known_pages.h"

namespace infer {

struct KvOptions {
  int64_t context = 0;  ///< tokens that one sequence may have
  bool reuse = true;    ///< keep full pages for later sequences
  /// Where full pages go that have to leave memory, up to so many bytes; empty: they are lost, and
  /// computed again.
  std::string folder;
  int64_t folder_bytes = 0;
};

/// Pages by who holds them, of all kinds together. total = running + idle + kept + free.
struct PageCounts {
  int64_t total = 0;
  int64_t running = 0;  ///< held by sequences in use, perhaps by others as well
  int64_t idle = 0;     ///< held by other sequences alone
  int64_t kept = 0;     ///< held by no sequence, but known
  int64_t free = 0;
};

/// One thread.
class KvCache {
 public:
  using SequenceId = int32_t;

  /// Allocates pages[k] pages of each kind of the layout, on the device that the kind names by
  /// number. out_of_memory or device on failure.
  static Result<std::unique_ptr<KvCache>> create(std::span<Device* const> devices,
                                                 const KvLayout& layout,
                                                 std::span<const int32_t> pages,
                                                 const KvOptions& options);

  SequenceId add_sequence();
  /// A sequence with the same contents, sharing all pages.
  SequenceId fork(SequenceId id);
  void remove_sequence(SequenceId id);
  /// Takes over the sequences of another cache, with nothing in them. That one has none then.
  void take_sequences(KvCache& other);
  /// Sequences in use keep their pages, whoever needs some.
  void set_in_use(SequenceId id, bool in_use);

  /// Takes over the pages known to hold the first tokens, at most `limit` of them: for a sequence
  /// of length 0. Returns its new length. As far as they are there, also those pages come that a
  /// rollback by kKvRollback needs.
  int64_t reuse(SequenceId id, const PageKeys& keys, int64_t limit);
  /// Makes room for `count` tokens more than are committed. does_not_fit if the pages are not there
  /// even after growing and without all that is kept and not in use; nothing in use has changed
  /// then.
  Status reserve(SequenceId id, int64_t count);
  /// The first `count` of those reserved have been written. keys: all of the sequence's, at least
  /// as many as are then committed.
  void commit(SequenceId id, const PageKeys& keys, int64_t count);
  /// Forgets all beyond `length` tokens, and what was reserved. Where a window's pages before that
  /// length are gone already, all is forgotten. Returns the length left.
  int64_t rollback(SequenceId id, int64_t length);

  /// The first page of a kind that the sequence has still; the last is that of its last token.
  int64_t first_page(SequenceId id, size_t kind) const { return table(id).kinds[kind].first; }
  /// Copies one of its pages out and in.
  Status read_page(SequenceId id, size_t kind, int64_t page, std::span<std::byte> to) const;
  Status write_page(SequenceId id, size_t kind, int64_t page, std::span<const std::byte> from);
  /// Room for `length` tokens that are computed already, for a sequence of length 0: from the page
  /// first[kind] on of each kind. Their contents are for the caller to write; they serve this
  /// sequence alone. does_not_fit as for reserve(); on failure it is as it was.
  Status restore(SequenceId id, int64_t length, std::span<const int64_t> first);

  int64_t length(SequenceId id) const { return table(id).length; }
  /// Whether it has pages, be they written or reserved alone.
  bool holds_pages(SequenceId id) const { return table(id).reserved > 0; }
  /// Tokens that one sequence may have.
  int64_t context() const { return options_.context; }

  /// The pages as a step over these sequences sees them, by kind; valid until the next call of
  /// pages(), reserve() or resize(). Row i of the tables belongs to ids[i].
  std::span<const KvPages> pages(std::span<const SequenceId> ids);

  /// Grows or shrinks to these numbers of pages. Growing moves nothing; shrinking first gives up
  /// what is kept, then what is not in use. does_not_fit if more is in use; what had been done till
  /// then stays.
  Status resize(std::span<const int32_t> pages);
  /// Adds pages of one kind. out_of_memory or device on failure.
  Status grow(size_t kind, int32_t pages);
  /// Pages of a kind that it is worth growing by.
  int32_t growth(size_t kind) const { return pools_[kind].slab_pages(size(kind)); }
  /// Asked to grow() a kind of which there are too few pages, before sequences lose theirs; whether
  /// it did. Does not throw.
  void set_growth(std::function<bool(size_t kind)> grow) { grow_ = std::move(grow); }
  size_t kinds() const { return kinds_.size(); }
  const KvKind& kind(size_t kind) const { return kinds_[kind]; }
  int64_t page_bytes(size_t kind) const { return pools_[kind].page_bytes(); }
  int32_t size(size_t kind) const { return pools_[kind].size(); }
  int32_t available(size_t kind) const { return pools_[kind].available(); }
  /// Pages of a kind held by sequences, among them those shared (counted once).
  int32_t held(size_t kind) const { return pools_[kind].held(); }
  /// Allocates nothing.
  PageCounts count_pages();
  /// Whether full pages are kept for later sequences.
  bool reuses() const { return options_.reuse; }
  size_t sequences() const { return tables_.size(); }
  /// Bytes of pages on a device that no sequence has had yet, so that the system still counts them
  /// as free.
  int64_t untouched_bytes(int32_t place) const;
  /// Forgets what nobody holds.
  void clear_kept();

 private:
  /// A sequence's pages of one kind. Those before `first` were let go: −1.
  struct Pages {
    std::vector<int32_t> ids;
    int64_t first = 0;
  };
  struct Table {
    std::vector<Pages> kinds;
    std::vector<PrefixNode*> nodes;  ///< of the full pages, as far as they are known to the tree
    int64_t length = 0;              ///< tokens committed
    int64_t reserved = 0;            ///< tokens there is room for
    bool in_use = false;
    bool restored = false;  ///< what it holds was not computed here: nobody else is to have it
    uint64_t last_use = 0;
  };

  KvCache(std::span<Device* const> devices, const KvLayout& layout, const KvOptions& options);

  Table& table(SequenceId id) { return tables_.at(id); }
  const Table& table(SequenceId id) const { return tables_.at(id); }
  /// Makes pages of a kind available: by growing, else from a sequence that is not in use.
  bool make_available(size_t kind, const Table& keep);
  bool drop_unused(const Table* keep);
  /// The page that is to be written next; −1 if that is a new one.
  int32_t tail(const Table& table, size_t kind) const;
  bool others_hold_tail(const Table& table, size_t kind) const;
  Status copy_tail(Table& table, size_t kind);
  void learn(Table& table, const PageKeys& keys);
  void let_go_behind_windows(Table& table);
  void forget(Table& table, int64_t length);

  std::vector<KvKind> kinds_;
  KvOptions options_;
  std::vector<BlockPool> pools_;  ///< by kind
  KnownPages known_;
  std::function<bool(size_t)> grow_;
  std::unordered_map<SequenceId, Table> tables_;
  std::vector<std::vector<int32_t>> step_tables_;  ///< by kind
  std::vector<KvPages> step_pages_;
  SequenceId next_id_ = 0;
  uint64_t clock_ = 0;
};

}  // namespace infer
