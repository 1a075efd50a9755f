#include "engine/spec/block_drafter.h"

#include <algorithm>
#include <chrono>

#include "engine/spec/draft_sampler.h"

namespace infer {
namespace {

using Clock = std::chrono::steady_clock;

/// Entries beyond a few are computed once and serve all later proposals, over so many of which
/// their time is spread.
constexpr double kBlockSpread = 64;
/// The weight of the last step of transitions in the time of the next one.
constexpr double kNewest = 0.1;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

int64_t BlockDrafter::sequence_bytes(int64_t width) {
  return 2 * kMostWaiting * (width + 1) * int64_t{sizeof(float)} + int64_t{sizeof(Held)};
}

BlockDrafter::BlockDrafter(const char* name, std::unique_ptr<Executor> executor,
                           std::unique_ptr<KvCache> cache, int64_t max_rows, int64_t max_outputs,
                           int64_t max_sequences, const StepCosts& costs, int64_t vocabulary,
                           std::unique_ptr<Executor> transitions)
    : name_(name),
      executor_(std::move(executor)),
      cache_(std::move(cache)),
      transitions_(std::move(transitions)),
      block_(*executor_->info().block),
      width_(executor_->info().takes_hidden),
      max_rows_(max_rows),
      together_(std::max<int64_t>(
          1, std::min(max_rows / (block_.rows + kFew), max_outputs / block_.rows))),
      costs_(costs),
      sequences_(*cache_, max_sequences),
      logits_(executor_->info(), vocabulary) {}

void BlockDrafter::forget(int64_t id) { sequences_.forget(id); }

/// Forgets the tokens from `length` on.
void BlockDrafter::cut(Held& held, size_t length) {
  const auto position = static_cast<int32_t>(length);
  const auto kept = std::ranges::lower_bound(held.waiting, position) - held.waiting.begin();
  held.waiting.resize(static_cast<size_t>(kept));
  held.states.resize(static_cast<size_t>(kept * width_));
  const auto cached = std::ranges::lower_bound(held.cached, position) - held.cached.begin();
  if (cached < std::ssize(held.cached)) {
    held.cached.resize(static_cast<size_t>(cached));
    cache_->rollback(held.kv, cached);
  }
  held.tokens.resize(length);
}

void BlockDrafter::observe(int64_t id, std::span<const int32_t> tokens,
                           std::span<const float> hidden) {
  Held& h = sequences_.observe(id, [](Held&) {});
  const auto width = static_cast<size_t>(width_);
  const size_t first = tokens.size() - hidden.size() / width;
  const auto same =
      static_cast<size_t>(std::ranges::mismatch(tokens, h.tokens).in1 - tokens.begin());
  if (same < h.tokens.size()) cut(h, same);
  // What the cache of the main model knew already has no entries.
  const size_t from = std::max(first, h.tokens.size());
  h.tokens.assign(tokens.begin(), tokens.end());
  for (size_t t = from; t < tokens.size(); ++t) h.waiting.push_back(static_cast<int32_t>(t));
  if (from >= tokens.size()) return;
  const std::span<const float> added = hidden.subspan((from - first) * width);
  h.states.insert(h.states.end(), added.begin(), added.end());
  if (std::ssize(h.waiting) < 2 * kMostWaiting) return;
  const ptrdiff_t dropped = std::ssize(h.waiting) - kMostWaiting;
  h.waiting.erase(h.waiting.begin(), h.waiting.begin() + dropped);
  h.states.erase(h.states.begin(), h.states.begin() + dropped * width_);
}

double BlockDrafter::seconds(int64_t id, std::span<const int32_t>, int64_t tokens) const {
  const Held* const found = sequences_.find(id);
  const int64_t waiting = found == nullptr ? 0 : std::ssize(found->waiting);
  const int64_t now = block_.rows + std::min(waiting, kFew);
  const double later = costs_.seconds(block_.rows + waiting) - costs_.seconds(now);
  return costs_.seconds(now) + later / kBlockSpread + static_cast<double>(tokens) * follow_seconds_;
}

/// Whether a proposal can be made: the tokens before the last one are those that were seen, and the
/// block has room.
bool BlockDrafter::prepare(Held& held, std::span<const int32_t> history) {
  const bool seen = held.tokens.size() + 1 == history.size() &&
                    std::ranges::equal(held.tokens, history.first(held.tokens.size()));
  if (!seen || std::ssize(held.tokens) + block_.rows > cache_->context()) return false;
  // A sequence that was not in use may have lost its pages.
  const int64_t length = cache_->length(held.kv);
  if (length < std::ssize(held.cached)) held.cached.resize(static_cast<size_t>(length));
  cache_->set_in_use(held.kv, true);
  return true;
}

/// `last`: the last slot that the row sees. `state`: of the main model; empty: a row of a block.
void BlockDrafter::add_row(const Held& held, int32_t token, int64_t position, int64_t slot,
                           int64_t last, std::span<const float> state) {
  if (ids_.empty() || ids_.back() != held.kv) ids_.push_back(held.kv);
  batch_.tokens.push_back(token);
  batch_.positions.push_back(static_cast<int32_t>(position));
  batch_.slots.push_back(static_cast<int32_t>(slot));
  batch_.last_seen.push_back(static_cast<int32_t>(last));
  batch_.sequences.push_back(static_cast<int32_t>(ids_.size()) - 1);
  batch_.hidden.resize(static_cast<size_t>(batch_.rows() * width_), 0.0f);
  std::ranges::copy_backward(state, batch_.hidden.end());
  batch_.own_hidden.push_back(state.empty() ? 1.0f : 0.0f);
}

/// The first `count` entries that wait.
void BlockDrafter::add_waiting(const Held& held, int64_t count) {
  const auto width = static_cast<size_t>(width_);
  for (int64_t i = 0; i < count; ++i) {
    const int32_t position = held.waiting[static_cast<size_t>(i)];
    const int64_t slot = std::ssize(held.cached) + i;
    add_row(held, held.tokens[static_cast<size_t>(position)], position, slot, slot,
            std::span(held.states).subspan(static_cast<size_t>(i) * width, width));
  }
}

void BlockDrafter::commit_waiting(Held& held, int64_t count) {
  if (count == 0) return;
  cache_->commit(held.kv, PageKeys(held.tokens), count);
  held.cached.insert(held.cached.end(), held.waiting.begin(), held.waiting.begin() + count);
  held.waiting.erase(held.waiting.begin(), held.waiting.begin() + count);
  held.states.erase(held.states.begin(), held.states.begin() + count * width_);
}

Result<std::span<const float>> BlockDrafter::run() {
  batch_.pages = cache_->pages(ids_);
  // The class changes what is drafted, not what comes of it: the one that is faster.
  if (batch_.rows() <= StepCosts::kRows) batch_.generated = batch_.rows();
  const Clock::time_point start = Clock::now();
  INFER_TRY(const std::span<const float> logits, executor_->run(batch_));
  costs_.update(batch_.rows(), since(start));
  return logits;
}

/// Computes waiting entries until a few are left. False if the cache has no pages for them.
Result<bool> BlockDrafter::catch_up(Held& held) {
  while (std::ssize(held.waiting) > kFew) {
    const int64_t count = std::min(std::ssize(held.waiting), max_rows_);
    if (!cache_->reserve(held.kv, count).ok()) return false;
    batch_.clear();
    ids_.clear();
    add_waiting(held, count);
    INFER_TRY(const auto logits, run());
    static_cast<void>(logits);
    commit_waiting(held, count);
  }
  return true;
}

Status BlockDrafter::propose(std::span<DraftRequest* const> requests) {
  while (!requests.empty()) {
    const size_t count = std::min(requests.size(), static_cast<size_t>(together_));
    INFER_CHECK(propose_some(requests.first(count)));
    requests = requests.subspan(count);
  }
  return {};
}

Status BlockDrafter::propose_some(std::span<DraftRequest* const> requests) {
  std::vector<Active> active;
  std::vector<Held*> used;
  Status status;
  for (DraftRequest* request : requests) {
    Held* const found = sequences_.find(request->id);
    if (found == nullptr || !prepare(*found, request->history)) continue;
    used.push_back(found);
    const Result<bool> ready = catch_up(*found);
    if (!ready) {
      status = ready.error();
      break;
    }
    if (*ready) active.push_back({request, found});
  }
  if (status.ok()) status = draft(std::move(active));
  for (Held* h : used) {
    cache_->rollback(h->kv, std::ssize(h->cached));
    cache_->set_in_use(h->kv, false);
  }
  return status;
}

/// Adds the entries that wait, and the block behind them.
void BlockDrafter::add_block(Active& active) {
  const Held& h = *active.held;
  const int64_t behind = std::ssize(h.waiting);
  add_waiting(h, behind);
  const int64_t slot = std::ssize(h.cached) + behind;
  const int64_t wanted = std::min(active.request->most, gives());
  active.first = batch_.output_rows.size();
  for (int64_t i = 0; i < block_.rows; ++i) {
    const int64_t last = block_.causal ? i : block_.rows - 1;
    const int64_t given = block_.from_first ? i : i - 1;
    if (given >= 0 && given < wanted) {
      batch_.output_rows.push_back(static_cast<int32_t>(batch_.rows()));
    }
    add_row(h, i == 0 ? active.request->history.back() : block_.mask, std::ssize(h.tokens) + i,
            slot + i, slot + last, {});
  }
}

Status BlockDrafter::draft(std::vector<Active> active) {
  // Tasks for which the cache has no pages end.
  std::erase_if(active, [&](const Active& a) {
    return a.request->most < 1 ||
           !cache_->reserve(a.held->kv, std::ssize(a.held->waiting) + block_.rows).ok();
  });
  if (active.empty()) return {};
  batch_.clear();
  ids_.clear();
  for (Active& a : active) add_block(a);
  INFER_TRY_S(const std::span<const float> logits, run());
  for (const Active& a : active) commit_waiting(*a.held, std::ssize(a.held->waiting));
  return choose(std::move(active), logits);
}

/// What the logits of the next token of each get for the token before it.
Result<std::span<const float>> BlockDrafter::follow(std::span<const Active> active) {
  if (transitions_ == nullptr) return std::span<const float>();
  follow_batch_.clear();
  for (size_t i = 0; i < active.size(); ++i) {
    const DraftRequest& request = *active[i].request;
    const auto row = static_cast<int32_t>(i);
    follow_batch_.tokens.push_back(request.tokens.empty() ? request.history.back()
                                                          : request.tokens.back().token);
    follow_batch_.positions.push_back(0);
    follow_batch_.slots.push_back(0);
    follow_batch_.sequences.push_back(row);
    follow_batch_.output_rows.push_back(row);
  }
  follow_batch_.generated = follow_batch_.rows();
  const Clock::time_point start = Clock::now();
  INFER_TRY(const std::span<const float> added, transitions_->run(follow_batch_));
  follow_seconds_ += kNewest * (since(start) - follow_seconds_);
  return added;
}

/// Draws the tokens of all, one place after the other.
Status BlockDrafter::choose(std::vector<Active> active, std::span<const float> logits) {
  const size_t vocabulary = logits.size() / batch_.output_rows.size();
  const int64_t gives = this->gives();
  while (!active.empty()) {
    INFER_TRY_S(const std::span<const float> added, follow(active));
    std::vector<Active> rest;
    for (size_t i = 0; i < active.size(); ++i) {
      DraftRequest& request = *active[i].request;
      const size_t row = active[i].first + request.tokens.size();
      std::span<const float> own = logits.subspan(row * vocabulary, vocabulary);
      if (!added.empty()) {
        sum_.assign(own.begin(), own.end());
        for (size_t t = 0; t < vocabulary; ++t) sum_[t] += added[i * vocabulary + t];
        own = sum_;
      }
      const DraftToken token = request.sampler->next(logits_.of(own));
      if (token.token < 0) continue;
      request.tokens.push_back(token);
      if (std::ssize(request.tokens) >= std::min(request.most, gives)) continue;
      if (request.go_on && !request.go_on(request)) continue;
      rest.push_back(active[i]);
    }
    active = std::move(rest);
  }
  return {};
}

}  // namespace infer
