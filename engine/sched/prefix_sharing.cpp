// What sequences that begin alike need not compute twice: pages that the cache knows, and those
// that another sequence computes in the step being built.
#include <algorithm>
#include <utility>

#include "engine/sched/scheduler.h"

namespace infer {

/// The keys that identify a sequence's pages in the prefix cache.
PageKeys Scheduler::keys(const Sequence& sequence) const {
  PageKeys keys = executor_->two_classes() ? PageKeys(sequence.tokens, sequence.generated)
                                           : PageKeys(sequence.tokens);
  keys.set_adapters(sequence.adapters);
  return keys;
}

/// Leading tokens that need no result, so that pages computed for another sequence will do.
int64_t Scheduler::replaceable(const Sequence& sequence) {
  return sequence.every_logit ? std::max(sequence.results_from, sequence.computed)
                              : static_cast<int64_t>(sequence.tokens.size()) - 1;
}

/// Gives the sequence the pages that the cache knows of its beginning, if they hold more than it
/// has.
void Scheduler::take_over(Sequence& sequence) {
  const int64_t known = cache_->reuse(sequence.kv, keys(sequence), replaceable(sequence));
  if (!sequence.asked_ && cache_->makes_checkpoints()) {
    branches_off(sequence, cache_->known_tokens(keys(sequence), replaceable(sequence)));
  }
  const int64_t more = std::max<int64_t>(0, known - sequence.computed);
  const bool first = !std::exchange(sequence.asked_, true);
  if (cache_->reuses()) {
    if (first) counts_.prefix_tokens += static_cast<int64_t>(sequence.tokens.size());
    counts_.prefix_found += first ? known : more;
  }
  sequence.reused += more;
  sequence.computed = std::max(sequence.computed, known);
}

/// Other texts go on differently after this many tokens, a whole number of pages: a checkpoint
/// there serves them.
void Scheduler::branches_off(Sequence& sequence, int64_t tokens) {
  const int64_t length = cache_->length(sequence.kv);
  if (tokens <= length) return;
  if (sequence.branch_ <= length || tokens < sequence.branch_) sequence.branch_ = tokens;
}

/// Tokens of whole pages with which both sequences begin, up to `end`.
int64_t Scheduler::common_tokens(const Sequence& a, const Sequence& b, int64_t end) const {
  if (a.adapters != b.adapters) return 0;
  const PageKeys of_a = keys(a);
  const PageKeys of_b = keys(b);
  int64_t pages = 0;
  while ((pages + 1) * kPageTokens <= end && of_a.page(pages) == of_b.page(pages)) ++pages;
  return pages * kPageTokens;
}

/// Whether the step computes the sequence's next page, or more, for another one that begins alike.
/// Then it waits for the next step, and takes over those pages. With recurrent states the other
/// one's rows of this step end where the two texts part.
bool Scheduler::waits_for_another(const Sequence& sequence) {
  const int64_t length = cache_->length(sequence.kv);
  const int64_t most = replaceable(sequence);
  if (most - length < kPageTokens || !cache_->shares(sequence.kv)) return false;
  return std::ranges::any_of(parts_, [&](Part& part) {
    const int64_t end = part.first + part.count;
    const int64_t may = std::min(end, most);
    if (part.first > length || may - length < kPageTokens) return false;
    if (!cache_->shares(part.sequence->kv)) return false;
    const int64_t common = common_tokens(sequence, *part.sequence, may);
    if (common - length < kPageTokens) return false;
    // Of recurrent states there is a copy where a step ends: this one ends there.
    if (cache_->makes_checkpoints()) {
      if (common < end && part.sequence->every_logit) return false;
      branches_off(*part.sequence, common);
      if (common == end) return true;
      rows_ -= end - common;
      part.count = common - part.first;
      cache_->shorten(part.sequence->kv, part.count);
      outputs_ -= std::exchange(part.results, 0);
    }
    return true;
  });
}

}  // namespace infer
