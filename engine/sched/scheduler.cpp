#include "engine/sched/scheduler.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <new>
#include <utility>

namespace infer {

Scheduler::Scheduler(Executor& executor, KvCache& cache, int64_t max_rows, int64_t max_outputs)
    : executor_(&executor), cache_(&cache), max_rows_(max_rows), max_outputs_(max_outputs) {}

void Scheduler::add(Sequence* sequence) {
  const auto place =
      std::ranges::upper_bound(active_, sequence->priority, std::greater<>(), &Sequence::priority);
  active_.insert(place, sequence);
  sequence->arrival_ = ++arrivals_;
  sequence->waiting_ = false;
  sequence->asked_ = false;
  sequence->begun_ = false;
  sequence->branch_ = 0;
  sequence->fits_ = std::numeric_limits<int64_t>::max();
  cache_->set_in_use(sequence->kv, true);
}

int64_t Scheduler::context(const Sequence& sequence) const {
  return std::min({sequence.context, cache_->context(), sequence.fits_});
}

int64_t Scheduler::pending(const Sequence& sequence) const {
  return static_cast<int64_t>(sequence.tokens.size()) - cache_->length(sequence.kv);
}

bool Scheduler::wants_result(const Sequence& sequence, int64_t token) {
  if (!sequence.every_logit) return token + 1 == static_cast<int64_t>(sequence.tokens.size());
  return token >= std::max(sequence.results_from, sequence.computed) &&
         !sequence.within_image(token);
}

void Scheduler::finish(Sequence* sequence, Status status) {
  std::erase(active_, sequence);
  cache_->rollback(sequence->kv, cache_->length(sequence->kv));
  cache_->set_in_use(sequence->kv, false);
  retry();
  tell_pages();
  // The owner may reuse or free the sequence as soon as it is told.
  sequence->consumer->done(std::move(status));
}

void Scheduler::finish_all(const Status& status) {
  while (!active_.empty()) finish(active_.back(), status);
}

/// Of the sequences that hold pages the last by priority and age, if it comes after `after`.
Sequence* Scheduler::last_holder(const Sequence* after) const {
  const auto comes_after = [](const Sequence* one, const Sequence* other) {
    return other == nullptr || (one->priority != other->priority ? one->priority < other->priority
                                                                 : one->arrival_ > other->arrival_);
  };
  Sequence* last = nullptr;
  for (Sequence* sequence : active_) {
    if (cache_->holds_pages(sequence->kv) && comes_after(sequence, last)) last = sequence;
  }
  return last != nullptr && comes_after(last, after) ? last : nullptr;
}

/// A sequence that holds pages while its reader lags, of this priority or a lower one.
Sequence* Scheduler::lagging_holder(int32_t most_priority) const {
  const auto found = std::ranges::find_if(active_, [&](const Sequence* s) {
    return s->lags_ && s->priority <= most_priority && cache_->holds_pages(s->kv);
  });
  return found == active_.end() ? nullptr : *found;
}

void Scheduler::preempt(Sequence* sequence) {
  cache_->rollback(sequence->kv, 0);
  sequence->waiting_ = true;
  const auto part = std::ranges::find(parts_, sequence, &Part::sequence);
  if (part == parts_.end()) return;
  rows_ -= part->count;
  outputs_ -= part->results;
  parts_.erase(part);
}

void Scheduler::retry() {
  for (Sequence* sequence : active_) sequence->waiting_ = false;
}

bool Scheduler::preempt() {
  const auto holders = std::ranges::count_if(
      active_, [&](const Sequence* sequence) { return cache_->holds_pages(sequence->kv); });
  if (holders < 2) return false;
  preempt(last_holder(nullptr));
  return true;
}

void Scheduler::shift(Sequence& sequence) {
  const auto size = static_cast<int64_t>(sequence.tokens.size());
  const int64_t most = context(sequence);
  const int64_t keep = std::min(sequence.keep, std::max<int64_t>(0, most - 2));
  const int64_t rest = std::max<int64_t>(1, (most - keep) / 2);
  const auto first = sequence.tokens.begin() + keep;
  const int64_t dropped = size - keep - rest;
  sequence.tokens.erase(first, first + dropped);
  const auto roles = static_cast<int64_t>(sequence.generated.size());
  sequence.generated.erase(sequence.generated.begin() + std::min(keep, roles),
                           sequence.generated.begin() + std::min(keep + dropped, roles));
  sequence.shifted += dropped;
  cache_->rollback(sequence.kv, keep);
  retry();
  // The tokens that stay count as computed once, though at other positions.
  sequence.computed =
      std::min(sequence.computed, keep) + std::max<int64_t>(0, sequence.computed - keep - dropped);
}

/// Reserves room. If there is none, preempts sequences that come after this one or whose readers
/// lag until there is, or this one.
Status Scheduler::make_room(Sequence* sequence, int64_t count) {
  const int64_t length = cache_->length(sequence->kv);
  if (length + count > context(*sequence)) {
    return error(StatusCode::does_not_fit, "the context is full: {} tokens after {}, it holds {}",
                 count, length, context(*sequence));
  }
  for (;;) {
    Status status = cache_->reserve(sequence->kv, count);
    if (status.ok() || status.code() != StatusCode::does_not_fit) return status;
    if (Sequence* other = last_holder(sequence)) {
      preempt(other);
      continue;
    }
    if (Sequence* other = lagging_holder(sequence->priority)) {
      preempt(other);
      other->waiting_ = false;  // once it is ready it comes before this one
      continue;
    }
    const bool alone = std::ranges::none_of(
        active_, [&](const Sequence* s) { return s != sequence && cache_->holds_pages(s->kv); });
    if (alone) {
      const int64_t room = cache_->room(sequence->kv);
      if (sequence->keep < 0 || room < 2 || room >= length + count) return status;
      sequence->fits_ = room;  // it is shifted before the next step
      sequence->waiting_ = true;
      return {};
    }
    preempt(sequence);
    return {};
  }
}

/// Fewer rows where they pass the end of a full page: checkpoints are made there. The last of all
/// tokens is never before one, since its result is wanted.
int64_t Scheduler::to_checkpoint(const Sequence& sequence, int64_t first, int64_t rows,
                                 int64_t pending) {
  if (sequence.branch_ > first && sequence.branch_ <= first + rows) return sequence.branch_ - first;
  const int64_t end = first + rows - (rows == pending ? 1 : 0);
  const int64_t full = end / kPageTokens * kPageTokens;
  return full > first ? full - first : rows;
}

/// Fewer rows where they end within an image whose rows see each other; 0 if that would be all.
int64_t Scheduler::whole_images(const Sequence& sequence, int64_t first, int64_t rows) const {
  if (executor_->info().sight == ImageSight::causal) return rows;
  for (const auto& image : sequence.images) {
    if (first + rows <= image.first) break;
    if (first + rows < image.first + image.count) return std::max<int64_t>(0, image.first - first);
  }
  return rows;
}

/// The fewest rows that a sequence can go on with.
int64_t Scheduler::rows_at_once(const Sequence& sequence) const {
  if (executor_->info().sight == ImageSight::causal) return 1;
  const int64_t first = cache_->length(sequence.kv);
  const auto image =
      std::ranges::find(sequence.images, first, [](const auto& i) { return i.first; });
  return image == sequence.images.end() ? 1 : std::min(image->count, max_rows_);
}

void Scheduler::take(Sequence* sequence, int64_t rows, int64_t outputs) {
  take_over(*sequence);
  if (waits_for_another(*sequence)) return;
  const int64_t first = cache_->length(sequence->kv);
  rows = std::min(pending(*sequence), rows);
  if (cache_->makes_checkpoints()) {
    rows = to_checkpoint(*sequence, first, rows, pending(*sequence));
  }
  int64_t count = 0;
  int64_t results = 0;
  const bool generated = sequence->is_generated(first);
  if (executor_->separate_roles() && generated != for_generated_) return;
  outputs = std::min(outputs, sequence->consumer->room());
  for (; count < rows; ++count) {
    if (executor_->two_classes() && sequence->is_generated(first + count) != generated) break;
    const int64_t wanted = wants_result(*sequence, first + count) ? 1 : 0;
    if (results + wanted > outputs) break;
    results += wanted;
  }
  for (const int64_t whole = whole_images(*sequence, first, count); count > whole; --count) {
    results -= wants_result(*sequence, first + count - 1) ? 1 : 0;
  }
  if (count == 0) return;
  if (Status status = make_room(sequence, count); !status.ok()) {
    if (status.code() == StatusCode::device && recover_) {
      lost_ = std::move(status);
      return;
    }
    finish(sequence, std::move(status));
    return;
  }
  if (sequence->waiting_) return;
  parts_.push_back({sequence, first, count, results});
  rows_ += count;
  outputs_ += results;
}

void Scheduler::plan_step() {
  parts_.clear();
  rows_ = 0;
  outputs_ = 0;
  order_ = active_;  // finish() changes active_
  // All consumers are asked before a sequence is taken, and asked twice: a mask that one of them
  // needs may keep another from being ready.
  for (int round = 0; round < 2; ++round) {
    for (Sequence* sequence : order_) {
      sequence->ready_ = sequence->consumer->ready(order_.size() == 1);
    }
  }
  bool gives = false;
  for (Sequence* sequence : order_) {
    sequence->lags_ = !sequence->ready_ && sequence->consumer->lags();
    gives = gives || (sequence->lags_ && cache_->holds_pages(sequence->kv));
  }
  if (gives) retry();
  // Shifts come first, since they decide in which round below a sequence is taken.
  for (Sequence* sequence : order_) {
    const auto size = static_cast<int64_t>(sequence->tokens.size());
    if (sequence->ready_ && size > context(*sequence) && sequence->keep >= 0) shift(*sequence);
  }
  // Separate roles take turns, step by step.
  for_generated_ = !for_generated_;
  plan_groups();
  if (parts_.empty() && executor_->separate_roles()) {
    for_generated_ = !for_generated_;
    // The owners of those that have ended may have freed them.
    std::erase_if(order_,
                  [&](Sequence* s) { return std::ranges::find(active_, s) == active_.end(); });
    plan_groups();
  }
  if (executor_->two_classes()) std::ranges::stable_partition(parts_, as_generated);
}

void Scheduler::plan_groups() {
  const std::span<Sequence* const> all = order_;
  for (size_t first = 0; first < all.size();) {
    size_t end = first + 1;
    while (end < all.size() && all[end]->priority == all[first]->priority) ++end;
    plan_group(all.subspan(first, end - first));
    first = end;
  }
}

/// Rows that the step may have, prompts and what others generate together.
int64_t Scheduler::rows_beside_generation() const {
  const auto generating =
      std::ranges::count_if(parts_, [](const Part& part) { return part.count == 1; });
  return generating == 0 ? max_rows_ : std::min(max_rows_, generating + pace_.most_rows());
}

/// Takes rows of sequences of one priority.
void Scheduler::plan_group(std::span<Sequence* const> group) {
  // Sequences that generate come first, so that prompts do not delay them. But the sequence whose
  // turn it is gets at least one row and one result, or the rows of an image that are computed
  // together, so that they do not delay it either.
  const auto turn =
      std::ranges::find_if(group, [](const Sequence* s) { return !s->waiting_ && s->ready_; });
  int64_t kept = turn != group.end() && pending(**turn) > 1 ? rows_at_once(**turn) : 0;
  for (const bool decoding : {true, false}) {
    const int64_t beside = decoding ? max_rows_ : rows_beside_generation();
    for (Sequence* sequence : group) {
      // take() may have ended it in the first round: its owner may have freed it since.
      if (std::ranges::find(active_, sequence) == active_.end()) continue;
      if ((pending(*sequence) == 1) != decoding || sequence->waiting_ || !sequence->ready_)
        continue;
      if (!decoding) kept = 0;  // in this round it comes first
      const int64_t most = std::min(max_rows_, std::max(beside, rows_ + rows_at_once(*sequence)));
      if (rows_ + kept >= most) continue;
      take(sequence, most - kept - rows_, max_outputs_ - std::min<int64_t>(kept, 1) - outputs_);
    }
  }
}

/// Whether a part computes just its sequence's next token, perhaps after tokens that were accepted
/// with drafts that were not: states are computed from before these.
bool Scheduler::follows(const Part& part) const {
  constexpr int64_t kMostAgain = 64;
  const auto size = static_cast<int64_t>(part.sequence->tokens.size());
  return part.count == pending(*part.sequence) &&
         (part.count == 1 || (part.count <= kMostAgain && part.sequence->computed + 1 >= size));
}

/// Adds drafted tokens, if every sequence of the step computes just its next token. A step with a
/// prompt gets none: prompts use the machine better than rows that may be wasted.
void Scheduler::propose() {
  items_.clear();
  if (speculator_ == nullptr) return;
  if (!std::ranges::all_of(parts_, [&](const Part& p) { return follows(p); })) return;
  for (const Part& part : parts_) {
    if (part.sequence->drafting == nullptr || part.results != 1) continue;
    if (executor_->two_classes() && !as_generated(part)) {
      part.sequence->drafting->proposal.clear();  // what is proposed has another role
      continue;
    }
    items_.push_back({part.sequence->drafting, part.sequence->tokens,
                      context(*part.sequence) - part.first - part.count});
  }
  if (items_.empty()) return;
  try {
    speculator_->propose(items_, rows_ - static_cast<int64_t>(items_.size()),
                         std::min(max_rows_, max_outputs_));
  } catch (const std::bad_alloc&) {
    for (const Speculator::Item& item : items_) item.drafting->proposal.clear();
  }
  for (Part& part : parts_) {
    if (part.sequence->drafting == nullptr) continue;
    std::vector<DraftToken>& proposal = part.sequence->drafting->proposal;
    const auto count = static_cast<int64_t>(proposal.size());
    // If there are no pages for the draft, it is dropped; no other sequence is preempted for it.
    if (count > 0 && !cache_->reserve(part.sequence->kv, part.count + count, count).ok()) {
      proposal.clear();
    }
    part.drafted = static_cast<int64_t>(proposal.size());
    rows_ += part.drafted;
    outputs_ += part.drafted;
  }
}

void Scheduler::fill_batch() {
  batch_.clear();
  ids_.clear();
  batch_.needed = {0, 1};
  for (Part& part : parts_) {
    part.row = batch_.rows();
    if (part.results + part.drafted > 0) {
      batch_.needed = batch_.needed.with(part.sequence->consumer->needed());
    }
    const auto table = static_cast<int32_t>(ids_.size());
    ids_.push_back(part.sequence->kv);
    batch_.begin_sequence(std::span(part.sequence->tokens).first(static_cast<size_t>(part.first)));
    for (int64_t t = part.first; t < part.first + part.count; ++t) {
      if (wants_result(*part.sequence, t)) {
        batch_.output_rows.push_back(static_cast<int32_t>(batch_.tokens.size()));
      }
      batch_.tokens.push_back(part.sequence->tokens[static_cast<size_t>(t)]);
      batch_.positions.push_back(part.sequence->position(t));
      batch_.slots.push_back(static_cast<int32_t>(t));
      batch_.sequences.push_back(table);
    }
    for (int64_t i = 0; i < part.drafted; ++i) {
      const int64_t t = part.first + part.count + i;
      batch_.output_rows.push_back(static_cast<int32_t>(batch_.tokens.size()));
      batch_.tokens.push_back(part.sequence->drafting->proposal[static_cast<size_t>(i)].token);
      batch_.positions.push_back(part.sequence->position(t));
      batch_.slots.push_back(static_cast<int32_t>(t));
      batch_.sequences.push_back(table);
    }
    if (as_generated(part)) batch_.generated = batch_.rows();
  }
  fill_images();
  fill_block_positions();
  fill_adapters();
  batch_.pages = cache_->pages(ids_);
}

/// What images give to the rows of the step, if any of them are of images.
void Scheduler::fill_images() {
  const std::vector<int64_t>& widths = executor_->info().takes_images;
  if (executor_->info().sight != ImageSight::causal) batch_.last_seen = batch_.slots;
  for (const Part& part : parts_) {
    for (const auto& [first, count, rows] : part.sequence->images) {
      const int64_t begin = std::max(first, part.first);
      const int64_t end = std::min(first + count, part.first + part.count);
      if (begin >= end) continue;
      if (batch_.images.empty()) {
        for (const int32_t token : batch_.tokens) batch_.text_tokens.push_back(std::max(token, 0));
        for (const int64_t width : widths) {
          batch_.images.emplace_back(static_cast<size_t>(width * batch_.rows()), 0.0f);
        }
      }
      for (int64_t t = begin; t < end; ++t) {
        if (!batch_.last_seen.empty()) {
          batch_.last_seen[static_cast<size_t>(part.row + t - part.first)] =
              static_cast<int32_t>(first + count - 1);
        }
        for (size_t i = 0; i < widths.size(); ++i) {
          std::ranges::copy(rows->part(t - first, static_cast<int64_t>(i)),
                            batch_.images[i].begin() + (part.row + t - part.first) * widths[i]);
        }
      }
    }
  }
}

/// Where the first tokens of blocks are, if images move positions.
void Scheduler::fill_block_positions() {
  const auto has_images = [](const Part& part) { return !part.sequence->images.empty(); };
  if (std::ranges::none_of(parts_, has_images)) return;
  for (const RopeSpec& rope : executor_->info().ropes) {
    if (rope.block == 1) continue;
    for (const Part& part : parts_) {
      for (int64_t t = part.first; t < part.first + part.count + part.drafted; ++t) {
        batch_.block_positions.push_back(part.sequence->position(t - t % rope.block));
      }
    }
    return;
  }
}

/// The factors of adapters in the rows of the step, if any of them has one.
void Scheduler::fill_adapters() {
  const size_t count = executor_->info().adapter_alphas.size();
  for (const Part& part : parts_) {
    const std::vector<float>& factors = part.sequence->adapters;
    if (factors.empty()) continue;
    if (batch_.adapters.empty()) {
      batch_.adapters.assign(count, std::vector<float>(static_cast<size_t>(batch_.rows())));
    }
    for (size_t i = 0; i < count; ++i) {
      std::fill_n(batch_.adapters[i].begin() + part.row, part.count + part.drafted, factors[i]);
    }
  }
}

void Scheduler::move_to(Executor& executor, KvCache& cache, int64_t max_rows, int64_t max_outputs) {
  executor_ = &executor;
  cache_ = &cache;
  max_rows_ = max_rows;
  max_outputs_ = max_outputs;
  retry();
}

/// Handles a failed step: recovers on another device, or ends every sequence.
void Scheduler::recover(const Status& failure) {
  const bool may = failure.code() == StatusCode::device && recover_;
  const Status left = may ? recover_(failure) : failure;
  if (!left.ok()) finish_all(left);
}

void Scheduler::step() {
  StepRecorder* const recorder = recorder_;
  if (recorder != nullptr) recorder->begin_step();
  if (compute_step() && recorder != nullptr) recorder->end_step();
}

/// False if there was nothing to compute, or it failed.
bool Scheduler::compute_step() {
  stalled_ = short_of_pages_ = false;
  for (size_t i = active_.size(); i-- > 0;) {
    if (active_[i]->cancelled.load(std::memory_order_relaxed)) {
      finish(active_[i], error(StatusCode::cancelled, "cancelled"));
    }
  }
  // Another sequence of each priority comes first in each step. So if there are too few rows or
  // results for all, each gets its turn. No output depends on the order.
  for (auto first = active_.begin(); first != active_.end();) {
    const auto end = std::find_if(first, active_.end(), [&](const Sequence* sequence) {
      return sequence->priority != (*first)->priority;
    });
    std::rotate(first, first + 1, end);
    first = end;
  }
  plan_step();
  if (const Status lost = std::exchange(lost_, {}); !lost.ok()) {
    recover(lost);
    return false;
  }
  if (parts_.empty()) {
    stalled_ = std::ranges::any_of(active_, [](const Sequence* s) { return !s->ready_; });
    short_of_pages_ = stalled_ && std::ranges::any_of(active_, &Sequence::waiting_);
    retry();
    return false;
  }
  propose();
  fill_batch();
  tell_begun();
  count_rows();
  if (recorder_ != nullptr) recorder_->end_part(StepPart::schedule);
  const auto start = std::chrono::steady_clock::now();
  const Result<std::span<const float>> logits = executor_->run(batch_, recorder_);
  if (!logits) {
    recover(logits.error());
    return false;
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  pace_.ran(rows_, seconds);
  if (!items_.empty()) speculator_->ran(rows_, seconds);
  deliver(*logits);
  return true;
}

}  // namespace infer
