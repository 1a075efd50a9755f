#include "engine/spec/head_drafter.h"

#include <algorithm>
#include <chrono>

#include "engine/spec/draft_sampler.h"

namespace infer {
namespace {

using Clock = std::chrono::steady_clock;

/// Pairs beyond these few are computed once and serve all later proposals, over so many of which
/// their time is spread.
constexpr int64_t kFew = 8;
constexpr double kSpread = 64;

}  // namespace

int64_t HeadDrafter::sequence_bytes(int64_t width) {
  // Waiting and recent states are cut down when there are twice as many.
  return (2 * kMostWaiting + 2 * kRecent + 2) * (width + 1) * int64_t{sizeof(float)} +
         int64_t{sizeof(Held)};
}

HeadDrafter::HeadDrafter(const char* name, std::unique_ptr<Executor> executor,
                         std::unique_ptr<KvCache> cache, int64_t max_rows, int64_t max_outputs,
                         int64_t max_sequences, const StepCosts& costs, int64_t vocabulary,
                         std::unique_ptr<HeadDrafter> next)
    : name_(name),
      executor_(std::move(executor)),
      cache_(std::move(cache)),
      width_(executor_->info().takes_hidden),
      own_(executor_->info().takes_own),
      max_rows_(max_rows),
      max_outputs_(max_outputs),
      costs_(costs),
      sequences_(*cache_, max_sequences),
      logits_(executor_->info(), vocabulary),
      next_(std::move(next)) {}

void HeadDrafter::forget(int64_t id) {
  if (next_ != nullptr) next_->forget(id);
  sequences_.forget(id);
}

void HeadDrafter::drop_ahead(Held& held) {
  if (held.ahead < 0) return;
  held.ahead = -1;
  held.cached.pop_back();
  cache_->rollback(held.kv, std::ssize(held.cached));
}

/// The hidden state of the last token.
void HeadDrafter::know_last(Held& held, std::span<const float> state) const {
  std::ranges::copy(state, held.last.begin());
  held.last_known = true;
}

void HeadDrafter::forget_last(Held& held) const {
  std::ranges::fill(held.last, 0.0f);
  held.last_known = false;
  held.recent.clear();
}

/// Forgets the tokens from `length` on.
void HeadDrafter::cut(Held& held, size_t length) {
  drop_ahead(held);
  const ptrdiff_t recent =
      std::ssize(held.recent) / width_ - (std::ssize(held.tokens) - static_cast<ptrdiff_t>(length));
  const auto position = static_cast<int32_t>(length);
  const auto kept = std::ranges::lower_bound(held.waiting, position) - held.waiting.begin();
  const auto begin = held.states.begin() + kept * width_;
  if (recent >= 0) {
    const auto state = held.recent.begin() + recent * width_;
    know_last(held, {state, state + width_});
    held.recent.erase(state, held.recent.end());
  } else {
    const bool waits =
        kept < std::ssize(held.waiting) && held.waiting[static_cast<size_t>(kept)] == position;
    forget_last(held);
    if (waits) know_last(held, {begin, begin + width_});
  }
  held.states.erase(begin, held.states.end());
  held.waiting.resize(static_cast<size_t>(kept));
  const auto cached = std::ranges::lower_bound(held.cached, position) - held.cached.begin();
  if (cached < std::ssize(held.cached)) {
    held.cached.resize(static_cast<size_t>(cached));
    cache_->rollback(held.kv, cached);
  }
  held.tokens.resize(length);
}

void HeadDrafter::trim(Held& held) const {
  if (std::ssize(held.waiting) < 2 * kMostWaiting) return;
  const ptrdiff_t dropped = std::ssize(held.waiting) - kMostWaiting;
  held.waiting.erase(held.waiting.begin(), held.waiting.begin() + dropped);
  held.states.erase(held.states.begin(), held.states.begin() + dropped * width_);
}

void HeadDrafter::observe(int64_t id, std::span<const int32_t> tokens,
                          std::span<const float> hidden) {
  Held& h = sequences_.observe(id, [&](Held& other) {
    forget_last(other);
    other.recent = {};
  });
  if (h.last.empty()) h.last.assign(static_cast<size_t>(width_), 0.0f);
  const size_t first = tokens.size() - hidden.size() / static_cast<size_t>(width_);
  const auto same =
      static_cast<size_t>(std::ranges::mismatch(tokens, h.tokens).in1 - tokens.begin());
  if (same < h.tokens.size()) cut(h, same);
  if (first > h.tokens.size()) {  // what the cache of the main model knew already
    drop_ahead(h);
    h.tokens.assign(tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(first));
    forget_last(h);
  }
  const auto width = static_cast<size_t>(width_);
  const auto state_of = [&](size_t token) {
    return hidden.subspan((token - first) * width, width);
  };
  if (h.tokens.size() > first) know_last(h, state_of(h.tokens.size() - 1));
  for (size_t t = h.tokens.size(); t < tokens.size(); ++t) {
    if (h.ahead != tokens[t]) drop_ahead(h);
    if (h.ahead < 0 && (own_ == 0 || h.last_known)) {
      h.waiting.push_back(static_cast<int32_t>(t));
      h.states.insert(h.states.end(), h.last.begin(), h.last.end());
      trim(h);
    }
    h.ahead = -1;
    h.tokens.push_back(tokens[t]);
    if (h.last_known) h.recent.insert(h.recent.end(), h.last.begin(), h.last.end());
    if (std::ssize(h.recent) >= 2 * kRecent * width_) {
      h.recent.erase(h.recent.begin(), h.recent.begin() + kRecent * width_);
    }
    know_last(h, state_of(t));
  }
}

double HeadDrafter::seconds(int64_t id, std::span<const int32_t>, int64_t tokens) const {
  return seconds(id, 0, tokens);
}

/// `more`: pairs that will wait beside those that do.
double HeadDrafter::seconds(int64_t id, int64_t more, int64_t tokens) const {
  const Held* const found = sequences_.find(id);
  const int64_t waiting = more + (found == nullptr ? 0 : std::ssize(found->waiting));
  const int64_t now = 1 + std::min(waiting, kFew);
  const double later = costs_.seconds(1 + waiting) - costs_.seconds(now);
  const double first = costs_.seconds(now) + later / kSpread;
  if (tokens > 1 && next_ != nullptr) return first + next_->seconds(id, 1 + waiting, tokens - 1);
  return first + static_cast<double>(tokens - 1) * costs_.seconds(1);
}

/// Whether a proposal can be made: the tokens before the last one are those that were seen.
bool HeadDrafter::prepare(Held& held, std::span<const int32_t> history) {
  if (held.tokens.size() + 1 != history.size() || history.empty() ||
      (own_ > 0 && !held.last_known) ||
      !std::ranges::equal(held.tokens, history.first(history.size() - 1)) ||
      std::ssize(held.cached) + std::ssize(held.waiting) >= cache_->context()) {
    return false;
  }
  drop_ahead(held);
  // A sequence that was not in use may have lost its pages.
  const int64_t length = cache_->length(held.kv);
  if (length < std::ssize(held.cached)) held.cached.resize(static_cast<size_t>(length));
  cache_->set_in_use(held.kv, true);
  return true;
}

/// `own`: the hidden state is of the head itself.
void HeadDrafter::add_row(const Held& held, int32_t token, int64_t position, int64_t slot,
                          std::span<const float> state, bool own) {
  if (ids_.empty() || ids_.back() != held.kv) ids_.push_back(held.kv);
  batch_.tokens.push_back(token);
  batch_.positions.push_back(static_cast<int32_t>(position));
  batch_.slots.push_back(static_cast<int32_t>(slot));
  batch_.sequences.push_back(static_cast<int32_t>(ids_.size()) - 1);
  const bool apart = own && own_ > 0;
  batch_.hidden.resize(static_cast<size_t>(batch_.rows() * width_), 0.0f);
  batch_.own_hidden.resize(static_cast<size_t>(batch_.rows() * own_), 0.0f);
  std::ranges::copy_backward(state, (apart ? batch_.own_hidden : batch_.hidden).end());
}

Result<std::span<const float>> HeadDrafter::run() {
  batch_.pages = cache_->pages(ids_);
  // The class changes what is drafted, not what comes of it: the one that is faster.
  if (batch_.rows() <= StepCosts::kRows) batch_.generated = batch_.rows();
  const Clock::time_point start = Clock::now();
  INFER_TRY(const std::span<const float> logits, executor_->run(batch_));
  costs_.update(batch_.rows(), std::chrono::duration<double>(Clock::now() - start).count());
  return logits;
}

/// Computes all waiting pairs but the last few. False if the cache has no pages for them.
Result<bool> HeadDrafter::catch_up(Held& held, int64_t id) {
  while (std::ssize(held.waiting) >= few()) {
    const int64_t count = std::min(std::ssize(held.waiting), max_rows_);
    if (!cache_->reserve(held.kv, count).ok()) return false;
    batch_.clear();
    ids_.clear();
    for (int64_t i = 0; i < count; ++i) {
      const int32_t position = held.waiting[static_cast<size_t>(i)];
      add_row(held, held.tokens[static_cast<size_t>(position)], position,
              std::ssize(held.cached) + i,
              std::span(held.states)
                  .subspan(static_cast<size_t>(i * width_), static_cast<size_t>(width_)));
    }
    INFER_TRY(const auto logits, run());
    static_cast<void>(logits);
    if (next_ != nullptr) {
      INFER_TRY(const std::span<const float> hidden, executor_->hidden(0, count));
      const auto end = static_cast<size_t>(batch_.positions.back().axes[0]) + 1;
      next_->observe(id, std::span(held.tokens).first(end), hidden);
    }
    cache_->commit(held.kv, PageKeys(held.tokens), count);
    held.cached.insert(held.cached.end(), held.waiting.begin(), held.waiting.begin() + count);
    held.waiting.erase(held.waiting.begin(), held.waiting.begin() + count);
    held.states.erase(held.states.begin(), held.states.begin() + count * width_);
  }
  return true;
}

Status HeadDrafter::propose(std::span<DraftRequest* const> requests) {
  std::vector<Task> tasks;
  for (DraftRequest* request : requests) tasks.push_back({request, request->history});
  std::span<const Task> rest = tasks;
  while (!rest.empty()) {
    const size_t count = std::min(rest.size(), static_cast<size_t>(max_outputs_));
    INFER_CHECK(propose_some(rest.first(count)));
    rest = rest.subspan(count);
  }
  return {};
}

Status HeadDrafter::propose_some(std::span<const Task> tasks) {
  std::vector<Active> active;
  std::vector<Held*> used;
  Status status;
  for (const Task& task : tasks) {
    Held* const found = sequences_.find(task.request->id);
    if (found == nullptr || !prepare(*found, task.history)) continue;
    used.push_back(found);
    const Result<bool> ready = catch_up(*found, task.request->id);
    if (!ready) {
      status = ready.error();
      break;
    }
    if (*ready) active.push_back({task, found, {}});
  }
  if (status.ok()) status = draft(std::move(active));
  for (Held* h : used) {
    cache_->rollback(h->kv, std::ssize(h->cached));
    cache_->set_in_use(h->kv, false);
  }
  return status;
}

/// Adds the rows of a step to the batch. `first`: the pairs that wait and that of the last token of
/// the history, else that of the token drafted last, which is no part of `cached`. Tasks for which
/// the cache has no pages end.
void HeadDrafter::add_rows(std::vector<Active>& active, bool first) {
  batch_.clear();
  ids_.clear();
  std::erase_if(active, [&](Active& a) {
    Held& h = *a.held;
    const int64_t behind = first ? std::ssize(h.waiting) : 0;
    const int64_t slot = cache_->length(h.kv);
    if (!cache_->reserve(h.kv, behind + 1).ok()) return true;
    for (int64_t i = 0; i < behind; ++i) {
      const auto w = static_cast<size_t>(i);
      add_row(h, h.tokens[static_cast<size_t>(h.waiting[w])], h.waiting[w], slot + i,
              std::span(h.states).subspan(w * static_cast<size_t>(width_),
                                          static_cast<size_t>(width_)));
    }
    const DraftRequest& request = *a.task.request;
    const int64_t drafted =
        std::ssize(request.history) + std::ssize(request.tokens) - std::ssize(a.task.history);
    add_row(h, first ? a.task.history.back() : request.tokens.back().token,
            std::ssize(h.tokens) + drafted, slot + behind,
            first ? std::span<const float>(h.last) : a.state, !first);
    batch_.output_rows.push_back(static_cast<int32_t>(batch_.rows()) - 1);
    return false;
  });
}

/// Shows the next head what the first step of these tasks has made.
Status HeadDrafter::show_next(const std::vector<Active>& active) {
  int64_t row = 0;
  for (const Active& a : active) {
    const int64_t count = std::ssize(a.held->waiting) + 1;
    INFER_TRY_S(const std::span<const float> hidden, executor_->hidden(row, count));
    next_->observe(a.task.request->id, a.task.history, hidden);
    row += count;
  }
  return {};
}

Status HeadDrafter::draft(std::vector<Active> active) {
  for (bool first = true; !active.empty(); first = false) {
    add_rows(active, first);
    if (active.empty()) break;
    INFER_TRY_S(const std::span<const float> logits, run());
    if (next_ != nullptr) INFER_CHECK(show_next(active));
    const size_t vocabulary = logits.size() / active.size();
    std::vector<Active> rest;
    for (size_t i = 0; i < active.size(); ++i) {
      Active& a = active[i];
      Held& h = *a.held;
      const int64_t behind = first ? std::ssize(h.waiting) : 0;
      cache_->commit(h.kv, PageKeys(h.tokens), behind + 1);
      if (first) {
        h.cached.insert(h.cached.end(), h.waiting.begin(), h.waiting.end());
        h.waiting.clear();
        h.states.clear();
        h.cached.push_back(static_cast<int32_t>(h.tokens.size()));
        h.ahead = a.task.history.back();
      }
      DraftRequest& request = *a.task.request;
      const DraftToken token =
          request.sampler->next(logits_.of(logits.subspan(i * vocabulary, vocabulary)));
      if (token.token < 0) continue;
      request.tokens.push_back(token);
      if (std::ssize(request.tokens) >= request.most) continue;
      if (request.go_on && !request.go_on(request)) continue;
      if (next_ == nullptr) {
        INFER_TRY_S(const auto state, executor_->hidden(static_cast<int64_t>(i), 1));
        a.state.assign(state.begin(), state.end());
      }
      rest.push_back(std::move(a));
    }
    if (next_ != nullptr) return hand_on(rest);
    active = std::move(rest);
  }
  return {};
}

/// The next head goes on with these tasks.
Status HeadDrafter::hand_on(const std::vector<Active>& active) {
  std::vector<std::vector<int32_t>> histories(active.size());
  std::vector<Task> tasks;
  for (size_t i = 0; i < active.size(); ++i) {
    const Task& task = active[i].task;
    histories[i].reserve(task.history.size() + 1);
    histories[i].assign(task.history.begin(), task.history.end());
    histories[i].push_back(task.request->tokens.back().token);
    tasks.push_back({task.request, histories[i]});
  }
  return next_->propose_some(tasks);
}

}  // namespace infer
