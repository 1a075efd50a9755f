#include "engine/sched/counters.h"

#include <algorithm>

namespace infer {

const std::array<double, Counters::kRowBounds> Counters::kRows = {
    1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536};
const std::array<double, Counters::kTimeBounds> Counters::kTimes = {
    0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1,
    0.2,    0.5,    1,      2,     5,     10,    20,   50,   100};

template <size_t N>
void Counters::add(Distribution<N>& to, const std::array<double, N>& bounds, double value) {
  ++to.counts[static_cast<size_t>(std::ranges::lower_bound(bounds, value) - bounds.begin())];
  to.sum += value;
}

template <size_t N>
Histogram Counters::histogram(const Distribution<N>& from, const std::array<double, N>& bounds) {
  Histogram to;
  to.bounds.assign(bounds.begin(), bounds.end());
  int64_t count = 0;
  for (const int64_t c : from.counts) to.counts.push_back(count += c);
  to.sum = from.sum;
  return to;
}

/// The present one.
Counters::Slot& Counters::slot() {
  const int64_t time = (Clock::now() - start_) / kSlotTime;
  Slot& now = slots_[static_cast<size_t>(time) % kSlots];
  if (now.time != time) now = {time};
  return now;
}

void Counters::session_opened(int64_t change) {
  const std::lock_guard lock(mutex_);
  sessions_ += change;
}

bool Counters::begin_call(int64_t most) {
  const std::lock_guard lock(mutex_);
  if (calls_ >= most) {
    ++refused_;
    return false;
  }
  ++calls_;
  return true;
}

void Counters::end_call() {
  const std::lock_guard lock(mutex_);
  --calls_;
}

void Counters::step(const StepCounts& counts) {
  const std::lock_guard lock(mutex_);
  ++steps_;
  last_rows_ = counts.rows;
  running_ = counts.running;
  total_.prompt_tokens += counts.prompt_tokens;
  total_.recomputed_tokens += counts.recomputed_tokens;
  total_.prefix_tokens += counts.prefix_tokens;
  total_.prefix_found += counts.prefix_found;
  total_.drafted += counts.drafted;
  total_.accepted += counts.accepted;
  add(rows_, kRows, static_cast<double>(counts.rows));
  slot().prompt_tokens += counts.prompt_tokens;
}

void Counters::set_pages(int64_t running, const PageCounts& pages) {
  const std::lock_guard lock(mutex_);
  running_ = running;
  pages_ = pages;
  pages_told_ = Clock::now();
}

int64_t Counters::most_pages() const {
  const std::lock_guard lock(mutex_);
  return pages_.most;
}

bool Counters::pages_are_old() const {
  constexpr std::chrono::milliseconds kOld(100);
  const std::lock_guard lock(mutex_);
  return Clock::now() - pages_told_ > kOld;
}

void Counters::token(bool first, double seconds) {
  const std::lock_guard lock(mutex_);
  ++generated_tokens_;
  add(first ? first_token_ : next_token_, kTimes, seconds);
  ++slot().generated_tokens;
}

EngineStatistics Counters::read() const {
  EngineStatistics s;
  Distribution<kRowBounds> rows;
  Distribution<kTimeBounds> first_token;
  Distribution<kTimeBounds> next_token;
  s.session_pages.reserve(PageCounts::kMostListed);
  {
    const std::lock_guard lock(mutex_);
    const Clock::time_point now = Clock::now();
    s.seconds = std::chrono::duration<double>(now - start_).count();
    s.sessions = sessions_;
    s.calls_running = std::min(running_, calls_);
    s.calls_waiting = calls_ - s.calls_running;
    s.calls_refused = refused_;
    s.steps = steps_;
    s.last_step_rows = last_rows_;
    s.prompt_tokens = total_.prompt_tokens;
    s.recomputed_tokens = total_.recomputed_tokens;
    s.generated_tokens = generated_tokens_;
    s.prefix_tokens = total_.prefix_tokens;
    s.prefix_tokens_found = total_.prefix_found;
    s.drafted_tokens = total_.drafted;
    s.accepted_tokens = total_.accepted;
    s.pages = {pages_.total, pages_.running, pages_.idle, pages_.kept, pages_.free};
    for (size_t i = 0; i < pages_.listed; ++i) {
      const SequencePages& pages = pages_.sequences[i];
      s.session_pages.push_back({pages.id, pages.held, pages.shared});
    }
    const int64_t time = (now - start_) / kSlotTime;
    for (const Slot& slot : slots_) {
      if (slot.time < 0 || slot.time + static_cast<int64_t>(kSlots) <= time) continue;
      s.prompt_tokens_per_s += static_cast<double>(slot.prompt_tokens);
      s.generated_tokens_per_s += static_cast<double>(slot.generated_tokens);
    }
    rows = rows_;
    first_token = first_token_;
    next_token = next_token_;
  }
  std::ranges::sort(s.session_pages, {}, &SessionPages::session);
  // The slots reach back to the beginning of the oldest one, but not before the engine was there.
  const double slot = std::chrono::duration<double>(kSlotTime).count();
  const double slots = s.seconds / slot;
  const double oldest = std::max(
      0.0, static_cast<double>(static_cast<int64_t>(slots)) + 1 - static_cast<double>(kSlots));
  const double covered = std::max((slots - oldest) * slot, slot);
  s.prompt_tokens_per_s /= covered;
  s.generated_tokens_per_s /= covered;
  s.step_rows = histogram(rows, kRows);
  s.first_token_seconds = histogram(first_token, kTimes);
  s.next_token_seconds = histogram(next_token, kTimes);
  return s;
}

}  // namespace infer
