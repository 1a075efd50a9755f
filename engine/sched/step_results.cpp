// What becomes of a step's logits: the consumers take them, the cache keeps what was accepted.
#include <algorithm>
#include <atomic>
#include <new>
#include <utility>

#include "engine/core/thread_pool.h"
#include "engine/sched/scheduler.h"

namespace infer {

/// Gives the rows of a part to the consumer. A drafted token is accepted if the consumer chose the
/// same token. The row after it is then the row that a step of its own would have computed.
void Scheduler::consume_rows(Part& part) {
  Sequence& sequence = *part.sequence;
  const auto results = static_cast<size_t>(part.results + part.drafted);
  if (results == 0) return;
  const size_t vocabulary = part.logits.size() / results;
  const int64_t end = part.first + part.count;
  // What this part's rows were taken for: step() lets the sequence grow.
  const int64_t from = sequence.every_logit ? std::max(sequence.results_from, sequence.computed)
                                            : static_cast<int64_t>(sequence.tokens.size()) - 1;
  size_t row = 0;
  int32_t chosen = -1;
  const auto take = [&](int64_t token) {
    sequence.reserve_one();  // first: no token that was told is lost
    const Outcome outcome =
        sequence.consumer->step({part.logits.subspan(row++ * vocabulary, vocabulary), token,
                                 sequence.tokens, sequence.shifted});
    part.goes_on = outcome.goes_on;
    chosen = outcome.token;
    if (outcome.goes_on && chosen >= 0) sequence.append_generated(chosen);
  };
  for (int64_t t = std::max(part.first, from); t < end && part.goes_on; ++t) {
    if (!sequence.within_image(t)) take(t);  // as wants_result()
  }
  while (part.goes_on && part.accepted < part.drafted &&
         chosen == sequence.drafting->proposal[static_cast<size_t>(part.accepted)].token) {
    take(end + part.accepted);
    ++part.accepted;
  }
}

void Scheduler::consume(Part& part) {
  try {
    consume_rows(part);
  } catch (const std::bad_alloc&) {
    part.goes_on = false;
    part.failure = Status(StatusCode::out_of_memory, "out of memory");  // takes no memory itself
  }
}

/// Shows the drafters the hidden states of the tokens that stay.
void Scheduler::show_hidden(const Part& part) {
  const Sequence& sequence = *part.sequence;
  if (speculator_ == nullptr || sequence.drafting == nullptr || !speculator_->takes_hidden())
    return;
  const int64_t count = part.count + part.accepted;
  const auto end = static_cast<size_t>(part.first + count);
  // Without them nothing is drafted; no token depends on it.
  const Result<std::span<const float>> hidden = executor_->hidden(part.row, count);
  if (!hidden) return;
  try {
    speculator_->observe(sequence.drafting->id, std::span(sequence.tokens).first(end), *hidden);
  } catch (const std::bad_alloc&) {
    speculator_->forget(sequence.drafting->id);
  }
}

/// Commits the accepted tokens to the cache. Ends the sequence if it is finished.
void Scheduler::commit(Part& part) {
  Sequence& sequence = *part.sequence;
  const int64_t count = part.count + part.accepted;
  const int64_t end = part.first + count;
  sequence.computed = std::max(sequence.computed, end);
  // Where another text goes on differently, and the last full page of what was given: another one
  // may go on from there.
  const bool lasting = end == sequence.branch_ ||
                       (sequence.is_given(end - 1) &&
                        static_cast<int64_t>(sequence.tokens.size()) - end <= kPageTokens);
  cache_->commit(sequence.kv, keys(sequence), count, lasting);
  if (!items_.empty() && sequence.drafting != nullptr) {
    speculator_->verified(*sequence.drafting, part.accepted);
  }
  if (!part.goes_on || pending(sequence) == 0) finish(&sequence, std::move(part.failure));
}

void Scheduler::deliver(std::span<const float> logits) {
  const size_t vocabulary = outputs_ == 0 ? 0 : logits.size() / static_cast<size_t>(outputs_);
  size_t sampled = 0;
  for (Part& part : parts_) {
    const size_t own = static_cast<size_t>(part.results + part.drafted) * vocabulary;
    part.logits = logits.first(own);
    logits = logits.subspan(own);
    if (own > 0) ++sampled;
  }
  ThreadPool* const threads = executor_->threads();
  if (sampled > 1 && threads != nullptr && threads->size() > 1) {
    std::atomic<size_t> next{0};
    threads->run([&](int) {
      for (size_t p = next++; p < parts_.size(); p = next++) consume(parts_[p]);
    });
  } else {
    for (Part& part : parts_) consume(part);
  }
  tell_step();
  for (Part& part : parts_) {
    show_hidden(part);
    commit(part);
  }
}

}  // namespace infer
