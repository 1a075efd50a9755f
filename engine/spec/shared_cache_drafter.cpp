#include "engine/spec/shared_cache_drafter.h"

#include <chrono>

#include "engine/spec/draft_sampler.h"

namespace infer {

int64_t SharedCacheDrafter::sequence_bytes(int64_t width) {
  // The state that is kept, and the one of a request while it is served.
  return 2 * width * int64_t{sizeof(float)} + int64_t{sizeof(Held)} + int64_t{sizeof(Active)};
}

void SharedCacheDrafter::observe(int64_t id, std::span<const int32_t> tokens,
                                 std::span<const float> hidden) {
  if (tokens.empty() || hidden.empty()) return;
  Held& held = sequences_[id];
  const auto last = hidden.last(static_cast<size_t>(width_));
  held.state.assign(last.begin(), last.end());
  held.length = tokens.size();
  held.token = tokens.back();
}

/// What is known of the token before the last one, if the cache ends there as well.
const SharedCacheDrafter::Held* SharedCacheDrafter::ready(const DraftRequest& request) const {
  const auto found = sequences_.find(request.id);
  if (found == sequences_.end()) return nullptr;
  const Held& held = found->second;
  const std::span<const int32_t> history = request.history;
  const bool same = held.length + 1 == history.size() && held.token == history[held.length - 1] &&
                    cache_.length(request.id) == static_cast<int64_t>(held.length);
  return same ? &held : nullptr;
}

Status SharedCacheDrafter::propose(std::span<DraftRequest* const> requests) {
  const auto each = static_cast<size_t>(max_outputs_);
  for (; requests.size() > each; requests = requests.subspan(each)) {
    INFER_CHECK(propose_some(requests.first(each)));
  }
  return propose_some(requests);
}

Status SharedCacheDrafter::propose_some(std::span<DraftRequest* const> requests) {
  using Clock = std::chrono::steady_clock;
  std::vector<Active> active;
  for (DraftRequest* request : requests) {
    if (const Held* held = ready(*request)) active.push_back({request, held->state});
  }
  while (!active.empty()) {
    batch_.clear();
    ids_.clear();
    for (const Active& a : active) {
      const DraftRequest& request = *a.request;
      const auto position = static_cast<int32_t>(request.history.size()) - 1;
      batch_.output_rows.push_back(static_cast<int32_t>(batch_.rows()));
      batch_.sequences.push_back(static_cast<int32_t>(ids_.size()));
      batch_.tokens.push_back(request.tokens.empty() ? request.history.back()
                                                     : request.tokens.back().token);
      batch_.positions.push_back(position);
      batch_.slots.push_back(position - 1);  // sees what is stored
      batch_.hidden.insert(batch_.hidden.end(), a.state.begin(), a.state.end());
      ids_.push_back(request.id);
    }
    batch_.generated = batch_.rows();
    batch_.pages = cache_.pages(ids_);
    const Clock::time_point start = Clock::now();
    INFER_TRY_S(const std::span<const float> logits, executor_->run(batch_));
    costs_.update(batch_.rows(), std::chrono::duration<double>(Clock::now() - start).count());
    const size_t vocabulary = logits.size() / active.size();
    std::vector<Active> rest;
    for (size_t i = 0; i < active.size(); ++i) {
      Active& a = active[i];
      DraftRequest& request = *a.request;
      const DraftToken token = request.sampler->next(logits.subspan(i * vocabulary, vocabulary));
      if (token.token < 0) continue;
      request.tokens.push_back(token);
      if (std::ssize(request.tokens) >= request.most) continue;
      if (request.go_on && !request.go_on(request)) continue;
      INFER_TRY_S(const std::span<const float> state,
                  executor_->hidden(static_cast<int64_t>(i), 1));
      a.state.assign(state.begin(), state.end());
      rest.push_back(std::move(a));
    }
    active = std::move(rest);
  }
  return {};
}

}  // namespace infer
