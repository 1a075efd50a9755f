// How large an engine's cache may be, and what else takes memory while it runs.
#include <algorithm>

#include "engine/session/engine_impl.h"

namespace infer {

int64_t Engine::Impl::cache_budget(const MemoryBudget& budget) const {
  const MemoryPlan& plan = opened.plan;
  return budget.available - (plan.used(budget) - plan.used(budget, Purpose::kv));
}

int64_t Engine::Impl::free_for_cache(const MemoryBudget& budget) const {
  int64_t free = INT64_MAX;
  for (const int32_t device : budget.devices) {
    const DeviceInfo info = opened.devices[static_cast<size_t>(device)]->info();
    if (info.name == budget.name) free = info.memory_free - budget.reserve;
  }
  for (const int32_t device : budget.devices) {
    // A device takes its own memory when it is allocated, the host when it is first written.
    const Device& on = *opened.devices[static_cast<size_t>(device)];
    if (on.info().memory != MemoryKind::own) free -= cache->untouched_bytes(device);
  }
  return free;
}

int64_t Engine::Impl::grown_bytes(size_t device) const {
  const auto more_than_planned = [&](const OpenedModel& model) {
    return model.devices[device]->allocated(Purpose::kv) - model.planned(device, Purpose::kv);
  };
  int64_t bytes = opened.plan.devices[device].of(Purpose::kv) + more_than_planned(opened);
  if (draft && device < draft->devices.size()) bytes += more_than_planned(*draft);
  return bytes;
}

int64_t Engine::Impl::grown_bytes(const MemoryBudget& budget) const {
  int64_t bytes = 0;
  for (const int32_t device : budget.devices) bytes += grown_bytes(static_cast<size_t>(device));
  return bytes;
}

bool Engine::Impl::grow_cache(KvCache& its, size_t kind, KvCache::Want want) {
  constexpr int64_t kShareForKept = 4;
  // Refusing to grow is no failure: the sequence waits, or other sequences are preempted.
  const Status grown = guarded([&]() -> Status {
    const int64_t page = its.page_bytes(kind);
    int64_t allowed = cache_cap;
    for (size_t device = 0; device < opened.devices.size(); ++device) {
      allowed -= grown_bytes(device);
    }
    int64_t pages = std::min<int64_t>(its.growth(kind), allowed / page);
    for (const MemoryBudget& budget : opened.plan.budgets) {
      const int32_t place = its.kind(kind).place;
      if (std::ranges::find(budget.devices, place) == budget.devices.end()) continue;
      int64_t most = cache_budget(budget);
      if (want == KvCache::Want::kept) {  // beyond the planned cache, a part of what is left
        const int64_t planned = opened.plan.used(budget, Purpose::kv);
        most = planned + (most - planned) / kShareForKept;
      }
      pages = std::min(pages, (most - grown_bytes(budget)) / page);
      if (pages > 0) pages = std::min(pages, free_for_cache(budget) / page);
    }
    if (pages <= 0) return {StatusCode::does_not_fit, ""};
    return its.grow(kind, static_cast<int32_t>(pages));
  });
  return grown.ok();
}

Status Engine::Impl::check_cache_size(int64_t bytes, std::span<const int32_t> pages) const {
  int64_t all = 0;
  for (size_t k = 0; k < pages.size(); ++k) all += pages[k] * cache->page_bytes(k);
  for (const MemoryBudget& budget : opened.plan.budgets) {
    int64_t elsewhere = all;
    int64_t now = 0;
    for (size_t k = 0; k < pages.size(); ++k) {
      const int32_t place = cache->kind(k).place;
      if (std::ranges::find(budget.devices, place) == budget.devices.end()) continue;
      elsewhere -= pages[k] * cache->page_bytes(k);
      now += cache->size(k) * cache->page_bytes(k);
    }
    const int64_t here = bytes - elsewhere;
    if (elsewhere == all || here <= now) continue;
    const int64_t drafts = grown_bytes(budget) - now;  // that the drafters' caches have grown by
    const int64_t most = std::min(cache_budget(budget) - drafts, now + free_for_cache(budget));
    if (here <= most) continue;
    return error(StatusCode::does_not_fit,
                 "a cache of {} does not fit: its part on {} is {} now and may be at most {}",
                 format_bytes(bytes), budget.name, format_bytes(now),
                 format_bytes(std::max(now, most)));
  }
  return {};
}

Status Engine::Impl::plan_grammars() {
  Status status;
  thread->call([&] {
    const std::lock_guard lock(placed_mutex);
    status = broken;
    if (!status.ok() || opened.plan.grammars() > 0) return;
    const MemoryBudget& budget = opened.plan.budgets[0];
    const int64_t left =
        std::min(cache_budget(budget) - grown_bytes(budget), free_for_cache(budget));
    if (left < Grammars::kMostBytes) {
      status = error(StatusCode::does_not_fit,
                     "grammars and schemas may need {}, but {} has only {} left; plan for them "
                     "when the model is loaded (--grammars), or free some memory",
                     format_bytes(Grammars::kMostBytes), budget.name, format_bytes(left));
      return;
    }
    opened.plan.devices[0].grammars = opened.request.grammar_bytes = Grammars::kMostBytes;
  });
  return status;
}

Status Engine::Impl::resize_cache(int64_t bytes) {
  INFER_CHECK(usable());
  const MemoryPlan& plan = opened.plan;
  const int64_t draft_states = opened.request.draft_states;
  int64_t drafts = 0;  // bytes
  for (const KvKind& kind : plan.kv_layout.kinds) {
    if (kind.state) drafts += draft_states * kind.page_bytes;
  }
  int64_t fits = 0;  // tokens
  int64_t too_many = int64_t{INT32_MAX} + 1;
  while (fits + 1 < too_many) {
    const int64_t middle = (fits + too_many) / 2;
    const int64_t need =
        drafts + kv_bytes(plan.kv_layout, middle, opened.request.sequences, plan.max_rows);
    (need <= bytes ? fits : too_many) = middle;
  }
  std::vector<int32_t> pages;
  for (const KvKind& kind : plan.kv_layout.kinds) {
    pages.push_back(
        static_cast<int32_t>(kv_pages(kind, fits, opened.request.sequences, plan.max_rows) +
                             (kind.state ? draft_states : 0)));
  }
  INFER_CHECK(check_cache_size(bytes, pages));
  cache_cap = bytes;
  Status status;
  do {
    status = cache->resize(pages);
  } while (status.code() == StatusCode::does_not_fit && scheduler->preempt());
  scheduler->retry();
  scheduler->tell_pages();
  return status;
}

}  // namespace infer
