// The sequences that a drafter with hidden states of the main model follows.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "engine/kv/kv_cache.h"

namespace infer {

/// Held: what is kept of a sequence. It has `kv`, its sequence in the drafter's cache; `waiting`
/// and `states`, positions and their hidden states; `observed`, when they were observed last as
/// this class counts, 0: it keeps none.
template <typename Held>
class HeldSequences {
 public:
  /// `most`: sequences whose hidden states are kept. The cache outlives this.
  HeldSequences(KvCache& cache, int64_t most) : cache_(cache), most_(most) {}

  /// Null: it was never observed.
  Held* find(int64_t id) {
    const auto found = held_.find(id);
    return found == held_.end() ? nullptr : &found->second;
  }
  const Held* find(int64_t id) const {
    const auto found = held_.find(id);
    return found == held_.end() ? nullptr : &found->second;
  }
  /// A sequence that is about to keep hidden states. Where enough others do, the one that was
  /// observed longest ago, which is not computed now, loses its own: they are many times what else
  /// is kept of it. `drop` gets that one first. May throw std::bad_alloc.
  template <typename Drop>
  Held& observe(int64_t id, Drop drop) {
    Held& held = add(id);
    if (held.observed == 0) make_room(drop);
    held.observed = ++observations_;
    return held;
  }
  void forget(int64_t id) {
    const auto found = held_.find(id);
    if (found == held_.end()) return;
    cache_.remove_sequence(found->second.kv);
    held_.erase(found);
  }

 private:
  Held& add(int64_t id) {
    const auto [found, fresh] = held_.try_emplace(id);
    if (!fresh) return found->second;
    try {
      found->second.kv = cache_.add_sequence();
    } catch (...) {
      held_.erase(found);
      throw;
    }
    return found->second;
  }
  template <typename Drop>
  void make_room(Drop drop) {
    int64_t count = 0;
    Held* oldest = nullptr;
    for (auto& [id, other] : held_) {
      if (other.observed == 0) continue;
      ++count;
      if (oldest == nullptr || other.observed < oldest->observed) oldest = &other;
    }
    if (count < most_) return;
    drop(*oldest);
    oldest->waiting = {};
    oldest->states = {};
    oldest->observed = 0;
  }

  KvCache& cache_;
  int64_t most_;
  uint64_t observations_ = 0;
  std::unordered_map<int64_t, Held> held_;
};

}  // namespace infer
