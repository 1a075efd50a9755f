#include "engine/sched/scheduler.h"

#include <algorithm>

namespace infer {

Scheduler::Scheduler(Executor& executor, KvCache& cache, int64_t max_rows, int64_t max_outputs)
    : executor_(executor), cache_(cache), max_rows_(max_rows), max_outputs_(max_outputs) {}

int64_t Scheduler::pending(const Sequence& sequence) const {
  return static_cast<int64_t>(sequence.tokens.size()) - cache_.length(sequence.kv);
}

void Scheduler::finish(Sequence* sequence, Status status) {
  std::erase(active_, sequence);
  cache_.rollback(sequence->kv, cache_.length(sequence->kv));
  // The owner may reuse or free the sequence as soon as it is told.
  const std::function<void(Status)> on_done = std::move(sequence->on_done);
  on_done(std::move(status));
}

void Scheduler::finish_all(const Status& status) {
  while (!active_.empty()) finish(active_.back(), status);
}

void Scheduler::take(Sequence* sequence, int64_t rows, int64_t outputs) {
  const int64_t waiting = pending(*sequence);
  int64_t count = std::min(waiting, rows);
  if (sequence->every_logit) count = std::min(count, outputs);
  const bool gives_result = sequence->every_logit || count == waiting;
  if (gives_result && !sequence->every_logit && outputs < 1) --count;
  if (count <= 0) return;
  if (Status status = cache_.reserve(sequence->kv, count); !status.ok()) {
    finish(sequence, std::move(status));
    return;
  }
  parts_.push_back({sequence, cache_.length(sequence->kv), count});
  rows_ += count;
  outputs_ += sequence->every_logit ? count : (count == waiting ? 1 : 0);
}

void Scheduler::plan_step() {
  parts_.clear();
  rows_ = 0;
  outputs_ = 0;
  order_ = active_;  // finish() changes active_
  // Sequences that generate come first, so that prompts of others do not make them wait.
  for (const bool decoding : {true, false}) {
    for (Sequence* sequence : order_) {
      // take() may have ended it in the first round: its owner may have freed it since.
      if (std::ranges::find(active_, sequence) == active_.end()) continue;
      if ((pending(*sequence) == 1) != decoding || rows_ >= max_rows_) continue;
      take(sequence, max_rows_ - rows_, max_outputs_ - outputs_);
    }
  }
}

void Scheduler::fill_batch() {
  batch_.clear();
  ids_.clear();
  for (const Part& part : parts_) {
    const auto table = static_cast<int32_t>(ids_.size());
    ids_.push_back(part.sequence->kv);
    const auto size = static_cast<int64_t>(part.sequence->tokens.size());
    for (int64_t t = part.first; t < part.first + part.count; ++t) {
      if (part.sequence->every_logit || t + 1 == size) {
        batch_.output_rows.push_back(static_cast<int32_t>(batch_.tokens.size()));
      }
      batch_.tokens.push_back(part.sequence->tokens[static_cast<size_t>(t)]);
      batch_.positions.push_back(static_cast<int32_t>(t));
      batch_.slots.push_back(static_cast<int32_t>(t));
      batch_.sequences.push_back(table);
    }
  }
  batch_.pages = cache_.pages(ids_);
}

void Scheduler::deliver(std::span<const float> logits) {
  if (outputs_ == 0) return;
  const size_t vocabulary = logits.size() / static_cast<size_t>(outputs_);
  size_t row = 0;
  for (const Part& part : parts_) {
    const int64_t size = static_cast<int64_t>(part.sequence->tokens.size());
    bool go_on = true;
    for (int64_t t = part.first; t < part.first + part.count; ++t) {
      if (!part.sequence->every_logit && t + 1 != size) continue;
      if (go_on) {
        go_on = part.sequence->on_logits(t, logits.subspan(row * vocabulary, vocabulary));
      }
      ++row;
    }
    if (!go_on || pending(*part.sequence) == 0) finish(part.sequence, {});
  }
}

void Scheduler::step() {
  if (recorder_ != nullptr) recorder_->begin_step();
  for (size_t i = active_.size(); i-- > 0;) {
    if (active_[i]->cancelled.load(std::memory_order_relaxed)) {
      finish(active_[i], error(StatusCode::cancelled, "cancelled"));
    }
  }
  // Another sequence comes first each time: where rows or results do not suffice for all, all get
  // their turn. No output depends on the order.
  if (active_.size() > 1) std::ranges::rotate(active_, active_.begin() + 1);
  plan_step();
  if (parts_.empty()) return;
  fill_batch();
  if (recorder_ != nullptr) recorder_->end_part(StepPart::schedule);
  const Result<std::span<const float>> logits = executor_.run(batch_, recorder_);
  if (!logits) {
    finish_all(logits.error());
    return;
  }
  for (const Part& part : parts_) cache_.commit(part.sequence->kv, part.count);
  deliver(*logits);
  if (recorder_ != nullptr) recorder_->end_step();
}

}  // namespace infer
