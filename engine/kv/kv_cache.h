// The key–value cache. Its memory is divided into pages of 64 tokens. Each sequence has one table
// of pages for each kind of layer (KvKind). A step works in this order: reserve(), then the step
// writes keys and values, then commit() keeps them or rollback() drops them.
//
// Prefix reuse: a full page is identified by its tokens and all tokens before it. Sequences that
// start with the same tokens share these pages. Pages of an ended sequence are kept for later
// sequences until the memory is needed (vLLM, Kwon et al. 2023; SGLang's radix tree, Zheng et al.
// 2024). A shared page is never written: a sequence that continues in the middle of one first gets
// a copy. So texts that part in the middle of a page share its beginning, too. Keys and values of a
// token depend only on the tokens up to it, so sharing changes no result.
//
// Recurrent states have one page a sequence, which every step changes. So a sequence can go back
// only to where a copy of it was kept: a checkpoint, the page of a node of the prefix tree.
// Checkpoints are made where a step ends at a full page: at the end of a prompt's last full page,
// where a text goes on differently from another one, after every kCheckpointTokens, and at the
// newest full page of what was generated. A new checkpoint of the last kind replaces the one before
// it. Reuse and rollback end at a checkpoint. A step with drafts has more pages, which get the
// states after the rows that may be the last ones accepted. So the page of that row becomes the
// sequence's, and nothing is computed again. If the device cannot do this
// (Device::keeps_row_states) or there are too few free pages, the step copies the page first
// instead, and after a refusal the accepted tokens are computed again.
//
// If there are too few pages, the cache first grows, if it may. Otherwise it takes all pages from a
// sequence that is not in use, the one unused for longest first. The length of that sequence
// becomes 0, and its tokens must be recomputed.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/kv/known_pages.h"
#include "engine/kv/page_pool.h"

namespace infer {

struct KvOptions {
  int64_t context = 0;  ///< tokens: the longest sequence
  bool reuse = true;    ///< keep full pages for later sequences
  /// Full pages that are evicted from memory are written to files in this folder. Empty: their
  /// contents are lost and have to be recomputed.
  std::string folder;
  int64_t folder_bytes = 0;  ///< bytes that the files may have
  /// Pages of each kind of states that drafts may take though checkpoints are in them.
  int64_t draft_states = 0;
};

/// Tokens from one checkpoint of a sequence's states to the next.
inline constexpr int64_t kCheckpointTokens = 2048;

/// Pages of one sequence, of all kinds together.
struct SequencePages {
  int32_t id = 0;
  int64_t held = 0;
  int64_t shared = 0;  ///< of these, held by other sequences as well
};

/// Pages by who holds them, of all kinds together. total = running + idle + kept + free.
struct PageCounts {
  static constexpr size_t kMostListed = 64;
  int64_t total = 0;
  int64_t most = 0;     ///< of one kind
  int64_t running = 0;  ///< held by sequences in use, perhaps by others as well
  int64_t idle = 0;     ///< held by other sequences alone
  int64_t kept = 0;     ///< held by no sequence, but known
  int64_t free = 0;
  /// Sequences that hold pages, the first `listed` entries: not more than there is room for.
  std::array<SequencePages, kMostListed> sequences;
  size_t listed = 0;
};

/// Not thread-safe: one thread makes all calls. A SequenceId comes from add_sequence() or fork(),
/// or was given to one of these, and is valid until remove_sequence(). Token counts are int64_t;
/// page numbers count from 0.
class KvCache {
 public:
  using SequenceId = int32_t;

  /// Allocates pages[k] pages of kind k of the layout, on devices[KvKind::place]. The devices
  /// outlive the cache. Errors: out_of_memory, device; io if the folder cannot be used.
  static Result<std::unique_ptr<KvCache>> create(std::span<Device* const> devices,
                                                 const KvLayout& layout,
                                                 std::span<const int32_t> pages,
                                                 const KvOptions& options);

  /// Adds an empty sequence that is not in use.
  SequenceId add_sequence();
  /// The same with an id that no sequence has. One cache gets all ids in this way or none.
  void add_sequence(SequenceId id);
  bool has_sequence(SequenceId id) const { return tables_.contains(id); }
  /// Adds a sequence with the committed tokens of `id`. The two share all pages.
  SequenceId fork(SequenceId id);
  void fork(SequenceId id, SequenceId new_id);
  void remove_sequence(SequenceId id);
  /// Moves all sequences of another cache to this one, which has none yet. Their ids stay; their
  /// tokens are dropped, so every length becomes 0. The other cache is left without sequences.
  void take_sequences(KvCache& other);
  /// A sequence in use never loses its pages to another one.
  void set_in_use(SequenceId id, bool in_use);

  /// Finds pages that hold the first tokens of `keys`, which are the sequence's, and makes them the
  /// sequence's pages if they hold more tokens than it has: at most `limit` tokens. Of the last
  /// page the sequence may have the beginning alone, unless there are states. Returns the new
  /// length. If the sequence has tokens, only pages in memory count. Windowed kinds also get the
  /// earlier pages that a rollback by kKvRollback needs, if these still exist.
  int64_t reuse(SequenceId id, const PageKeys& keys, int64_t limit);
  /// Tokens of full pages, at most `limit`, with which some text began that the cache remembers,
  /// though it may not have all of their pages any more.
  int64_t known_tokens(const PageKeys& keys, int64_t limit) const {
    return known_.common(keys, std::min(limit, keys.tokens()) / kPageTokens) * kPageTokens;
  }
  /// Makes room for `count` tokens after the committed ones, of which the last `drafted` may be
  /// left out of commit(). Errors: does_not_fit if the context is full, or if there are too few
  /// pages even after growing and after taking those that are kept or not in use; device. Drafts
  /// take none of a sequence that is not in use. On does_not_fit no sequence in use has changed.
  Status reserve(SequenceId id, int64_t count, int64_t drafted = 0);
  /// Tokens that a sequence can have with its pages and all that reserve() could give it without
  /// growing, if no other sequence is in use.
  int64_t room(SequenceId id) const;
  /// Less room than reserve() made, without drafts: for the first `count` tokens.
  void shorten(SequenceId id, int64_t count);
  /// Commits the first `count` reserved tokens, which a step has written. `keys` has at least all
  /// tokens committed so far and these. If there are states, `count` leaves some tokens out and the
  /// states after the others were not kept, none is committed: the states are those before the
  /// step. `lasting`: a checkpoint made here is not dropped for a later one.
  void commit(SequenceId id, const PageKeys& keys, int64_t count, bool lasting = false);
  /// Drops all tokens from `length` on, and the reserved room. Returns the new length. It is 0 if a
  /// windowed kind has already freed a page that a token at `length` would see. If there are
  /// states, it is that of the last checkpoint up to `length`, unless nothing is dropped.
  int64_t rollback(SequenceId id, int64_t length);

  /// The first page of a kind that the sequence still has. Its last page is that of its last token.
  int64_t first_page(SequenceId id, size_t kind) const { return table(id).kinds[kind].first; }
  /// Copies a page of the sequence, page_bytes(kind) bytes, to host memory or from it.
  Status read_page(SequenceId id, size_t kind, int64_t page, std::span<std::byte> to) const;
  Status write_page(SequenceId id, size_t kind, int64_t page, std::span<const std::byte> from);
  /// Gives a sequence of length 0 pages for `length` tokens computed elsewhere, in each kind from
  /// page first[kind] on. The caller then writes these pages with write_page(). Other sequences
  /// never reuse them. Errors: does_not_fit, as for reserve(); the sequence is then unchanged.
  Status restore(SequenceId id, int64_t length, std::span<const int64_t> first);

  /// Committed tokens.
  int64_t length(SequenceId id) const { return table(id).length; }
  /// True if the sequence has pages, written or only reserved.
  bool holds_pages(SequenceId id) const { return table(id).reserved > 0; }
  /// Tokens that one sequence may have.
  int64_t context() const { return options_.context; }

  /// The tables of pages for a step over these sequences, by kind. Row i of each table is that of
  /// ids[i]. Valid until the next call of pages(), reserve(), grow() or resize().
  std::span<const KvPages> pages(std::span<const SequenceId> ids);

  /// Grows or shrinks kind k to pages[k] pages. Growing moves no data. Shrinking first takes pages
  /// that are kept, then those of sequences not in use. Errors: does_not_fit if sequences in use
  /// hold more pages; out_of_memory, device. On failure the kinds changed so far stay changed.
  Status resize(std::span<const int32_t> pages);
  /// Adds pages of one kind. Errors: out_of_memory, device.
  Status grow(size_t kind, int32_t pages);
  /// A good number of pages to grow a kind by: one slab.
  int32_t growth(size_t kind) const { return pools_[kind].slab_pages(size(kind)); }
  /// Why the cache is to grow.
  enum class Want : uint8_t {
    pages,  ///< else sequences lose theirs
    kept,   ///< else pages of earlier texts are lost, which a later text may begin with
  };
  /// Sets a function that is called when a kind has too few pages. It may call grow() and returns
  /// whether it did. It must not throw.
  void set_growth(std::function<bool(size_t kind, Want)> grow) { grow_ = std::move(grow); }
  size_t kinds() const { return kinds_.size(); }
  const KvKind& kind(size_t kind) const { return kinds_[kind]; }
  int64_t page_bytes(size_t kind) const { return pools_[kind].page_bytes(); }
  /// All pages of a kind.
  int32_t size(size_t kind) const { return pools_[kind].size(); }
  /// Pages of a kind that no sequence holds: free or kept.
  int32_t available(size_t kind) const { return pools_[kind].available(); }
  /// Pages of a kind that sequences hold. A shared page counts once.
  int32_t held(size_t kind) const { return pools_[kind].held(); }
  /// Allocates nothing.
  PageCounts count_pages();
  /// Whether full pages are kept for later sequences.
  bool reuses() const { return options_.reuse; }
  /// Whether the sequence's full pages serve others, and theirs this one.
  bool shares(SequenceId id) const { return options_.reuse && !table(id).restored; }
  /// Whether steps should end at full pages, since checkpoints are made there.
  bool makes_checkpoints() const { return stateful_ && options_.reuse; }
  size_t sequences() const { return tables_.size(); }
  /// Bytes of the pages on device number `place` that no sequence has had yet. The system may still
  /// count them as free memory.
  int64_t untouched_bytes(int32_t place) const;
  /// Frees the kept pages: full pages that no sequence holds.
  void clear_kept();

 private:
  /// A sequence's pages of one kind. Pages before `first` have been freed: −1.
  struct Pages {
    std::vector<int32_t> ids;
    int64_t first = 0;
  };
  struct Table {
    std::vector<Pages> kinds;
    std::vector<PrefixNode*> nodes;  ///< of the full pages in the prefix tree: the leading ones
    int64_t length = 0;              ///< tokens committed
    int64_t reserved = 0;            ///< tokens there is room for, the committed ones included
    bool in_use = false;
    bool restored = false;  ///< its pages come from restore(): no other sequence may reuse them
    uint64_t last_use = 0;
    // Of states:
    std::vector<int32_t> before;  ///< by kind: the page before a step with drafts; empty: none
    /// By kind: the pages of a step with drafts that get the states after `kept_from` tokens, one
    /// more, and so on. Empty: none.
    std::vector<std::vector<int32_t>> kept;
    int64_t kept_from = 0;
    int64_t lasting = 0;  ///< full pages up to the last checkpoint that stays
    int64_t rolling = 0;  ///< up to the last one that does not; 0: none
  };

  KvCache(std::span<Device* const> devices, const KvLayout& layout, const KvOptions& options);

  Table& table(SequenceId id) { return tables_.at(id); }
  const Table& table(SequenceId id) const { return tables_.at(id); }
  /// Makes pages of a kind available: grows, or takes those of a sequence that is not in use.
  bool make_available(size_t kind, const Table& keep);
  bool drop_unused(const Table* keep);
  /// The page that the next token is written to; −1 if that will be a new page.
  int32_t tail(const Table& table, size_t kind) const;
  bool others_hold_tail(const Table& table, size_t kind) const;
  size_t tail_index(const Table& table, size_t kind) const;
  Status copy_tail(Table& table, size_t kind);
  Status save_states(Table& table);
  bool keep_row_states(Table& table, int64_t drafted);
  bool take_row_state(Table& table, int64_t length);
  void drop_saved(Table& table);
  void restore_saved(Table& table);
  /// The length of the last checkpoint up to `length`; 0: none.
  int64_t last_checkpoint(const Table& table, int64_t length) const;
  void make_checkpoint(Table& table, bool lasting);
  void learn(Table& table, const PageKeys& keys);
  void let_go_behind_windows(Table& table);
  void forget(Table& table, int64_t length);

  std::vector<KvKind> kinds_;
  bool stateful_;                ///< some kind is of states
  bool row_states_;              ///< all devices of such kinds keep states from within a step
  int64_t row_state_pages_ = 0;  ///< of each such kind, in Table::kept
  KvOptions options_;
  std::vector<PagePool> pools_;  ///< by kind
  KnownPages known_;
  std::function<bool(size_t, Want)> grow_;
  std::unordered_map<SequenceId, Table> tables_;
  std::vector<std::vector<int32_t>> step_tables_;  ///< by kind
  std::vector<KvPages> step_pages_;
  SequenceId next_id_ = 0;
  uint64_t clock_ = 0;
};

}  // namespace infer
