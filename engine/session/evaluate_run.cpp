#include "engine/session/evaluate_run.h"

#include <algorithm>
#include <utility>

namespace infer {

EvaluateRun::EvaluateRun(Engine::Impl& engine, Sequence& sequence, const LogitsFn& on_logits,
                         bool in_place)
    : engine_(engine),
      sequence_(sequence),
      on_logits_(on_logits),
      in_place_(in_place),
      held_(sequence.tokens.size()),
      vocabulary_(engine.opened.model->info().vocabulary) {}

Status EvaluateRun::run(std::span<const int32_t> tokens, std::span<const ModelImage> images) {
  if (on_logits_ && !in_place_) {
    const size_t rows =
        std::min(tokens.size(), static_cast<size_t>(engine_.opened.request.max_outputs));
    rows_.resize(rows * static_cast<size_t>(vocabulary_));
    positions_.resize(rows);
  }
  try {
    sequence_.append_given(tokens, engine_.is_few(tokens.size()), images);
    sequence_.every_logit = true;
    sequence_.results_from = static_cast<int64_t>(held_);
    sequence_.reused = 0;
    sequence_.priority = 0;
    sequence_.consumer = this;
    engine_.thread->submit(&sequence_);
  } catch (...) {
    sequence_.cut(held_);
    throw;
  }
  read();
  if (!callback_failure_.ok()) return std::move(callback_failure_);
  return ended_ && status_.code() == StatusCode::cancelled ? Status() : std::move(status_);
}

/// Reads rows until the run has finished.
void EvaluateRun::read() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return count_ > 0 || finished_; });
    if (count_ == 0) return;
    const size_t row = first_;
    lock.unlock();
    if (!ended_) {
      const auto size = static_cast<size_t>(vocabulary_);
      if (!tell(positions_[row], std::span(rows_).subspan(row * size, size))) {
        sequence_.cancelled.store(true);
      }
    }
    lock.lock();
    first_ = (first_ + 1) % positions_.size();
    --count_;
    starved_at_ = std::chrono::steady_clock::now();
    if (!starved_ || count_ > positions_.size() / 2) continue;
    starved_ = false;
    lock.unlock();
    engine_.thread->wake();
    lock.lock();
  }
}

bool EvaluateRun::tell(int64_t position, std::span<const float> logits) {
  const bool wanted = call_back(callback_failure_, [&] { return on_logits_(position, logits); });
  if (!wanted) ended_ = true;
  return wanted;
}

Status EvaluateRun::begin() { return engine_.prepare_sequence(sequence_); }

bool EvaluateRun::ready(bool /*alone*/) {
  const std::lock_guard lock(mutex_);
  // A step computes as many rows as there is room for: with few of them each step would read all
  // weights for little.
  if (count_ <= positions_.size() / 2) return true;
  if (!std::exchange(starved_, true)) starved_at_ = std::chrono::steady_clock::now();
  return false;
}

bool EvaluateRun::lags() const {
  const std::lock_guard lock(mutex_);
  return starved_ && std::chrono::steady_clock::now() - starved_at_ >= kLag;
}

int64_t EvaluateRun::room() const {
  if (positions_.empty()) return Consumer::room();
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(positions_.size() - count_);
}

Outcome EvaluateRun::step(const LogitRow& row) {
  // The first row may be the last token of an earlier generation. Its logits are not wanted.
  if (row.position < static_cast<int64_t>(held_) || !on_logits_) return {-1, true};
  if (in_place_) return {-1, tell(row.position, row.logits)};
  size_t at = 0;
  {
    const std::lock_guard lock(mutex_);
    at = (first_ + count_) % positions_.size();
  }
  std::ranges::copy(row.logits, rows_.begin() + static_cast<int64_t>(at) * vocabulary_);
  const std::lock_guard lock(mutex_);
  positions_[at] = row.position;
  ++count_;
  changed_.notify_all();
  return {-1, true};
}

void EvaluateRun::done(Status status) {
  const std::shared_ptr<EvaluateRun> self = shared_from_this();  // the reader may release it
  sequence_.consumer = nullptr;
  const auto computed = static_cast<size_t>(sequence_.computed);
  sequence_.cut(std::max(computed, std::min(held_, sequence_.tokens.size())));
  const std::lock_guard lock(mutex_);
  status_ = std::move(status);
  finished_ = true;
  changed_.notify_all();
}

}  // namespace infer
