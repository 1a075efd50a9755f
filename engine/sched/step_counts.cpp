// What the scheduler tells the counters.
#include <algorithm>
#include <utility>

#include "engine/sched/scheduler.h"

namespace infer {

/// Sequences whose tokens are in the cache.
int64_t Scheduler::running() const {
  return std::ranges::count_if(
      active_, [&](const Sequence* sequence) { return cache_->holds_pages(sequence->kv); });
}

void Scheduler::tell_pages() {
  if (counters_ != nullptr) counters_->set_pages(running(), cache_->count_pages());
}

/// Tells the consumers of sequences that are computed for the first time.
void Scheduler::tell_begun() {
  for (const Part& part : parts_) {
    Sequence& sequence = *part.sequence;
    if (!std::exchange(sequence.begun_, true)) sequence.consumer->computing();
  }
}

/// Of the step that is computed next. What a step that failed had counted is forgotten.
void Scheduler::count_rows() {
  counts_ = {
      .rows = rows_, .prefix_tokens = counts_.prefix_tokens, .prefix_found = counts_.prefix_found};
  for (const Part& part : parts_) {
    const Sequence& sequence = *part.sequence;
    const int64_t again = std::clamp<int64_t>(sequence.computed - part.first, 0, part.count);
    counts_.recomputed_tokens += again;
    for (int64_t t = part.first + again; t < part.first + part.count; ++t) {
      if (sequence.is_given(t)) ++counts_.prompt_tokens;
    }
    counts_.drafted += part.drafted;
  }
}

/// Before the sequences that end with the step are told.
void Scheduler::tell_step() {
  for (const Part& part : parts_) counts_.accepted += part.accepted;
  counts_.running = running();
  if (counters_ != nullptr) {
    counters_->step(counts_);
    if (counters_->pages_are_old()) tell_pages();
  }
  counts_ = {};
}

}  // namespace infer
