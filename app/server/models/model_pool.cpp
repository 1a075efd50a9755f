#include "server/models/model_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "platform/sockets.h"

namespace infer::server {
namespace {

/// How often it is looked whether those that wait still do.
constexpr auto kLook = std::chrono::milliseconds(50);

int64_t now_seconds_since_1970() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

bool runs_on_cpu(const LoadOptions& load) { return load.device == "cpu"; }

/// The failure of a model that may fit another time: other programs may give memory back.
Status for_now(const Status& status) {
  if (status.code() != StatusCode::does_not_fit) return status;
  return {StatusCode::out_of_memory, status.message()};
}

}  // namespace

struct ModelPool::Slot {
  ModelSource source;
  std::unique_ptr<ServedModel> model;
  int users = 0;
  bool loading = false;
  bool leaving = false;  ///< no new request gets it
  bool offered = true;
  Clock::time_point used;
  bool awaited = false;     ///< somebody may try again when it is loaded
  int64_t planned_at = -1;  ///< ModelPool::changes_ when it was found not to fit
  int64_t cache = 0;        ///< bytes that it had when it was loaded
};

/// What a lease holds.
struct ModelPool::Hold {
  Hold(const ModelPool& owner, std::shared_ptr<Slot> held, bool use)
      : pool(owner), slot(std::move(held)), uses(use) {}
  ~Hold() { pool.released(*slot, uses); }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

  const ModelPool& pool;
  std::shared_ptr<Slot> slot;
  bool uses;  ///< a request's, not that of somebody who looks
};

ModelPool::ModelPool(std::unique_ptr<ServedModel> model)
    : single_(true), created_(now_seconds_since_1970()) {
  auto slot = std::make_shared<Slot>();
  slot->source.name = model->name();
  slot->source.path = model->engine().model().path;
  slot->source.bytes = model->engine().model().weight_bytes;
  slot->model = std::move(model);
  slots_.push_back(std::move(slot));
  options_.keep_seconds = -1;
}

ModelPool::ModelPool(std::vector<ModelSource> sources, PoolOptions options)
    : single_(false), options_(std::move(options)), created_(now_seconds_since_1970()) {
  budget_ = options_.load.memory_limit;
  if (budget_ == 0 && runs_on_cpu(options_.load)) {
    for (const DeviceDescription& device : devices("cpu")) budget_ = device.memory_free;
  }
  replace(std::move(sources));
  loader_ = std::thread([this] { run(); });
}

ModelPool::~ModelPool() { stop(); }

void ModelPool::stop() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  if (loader_.joinable()) loader_.join();
}

std::optional<std::string> ModelPool::resolve(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  if (slots_.empty()) return std::nullopt;
  if (single_ || name.empty()) return slots_.front()->source.name;
  if (slot_of(name) != nullptr) return name;
  // ollama's clients add this to names without a tag.
  constexpr std::string_view kLatest = ":latest";
  if (!name.ends_with(kLatest)) return std::nullopt;
  std::string plain = name.substr(0, name.size() - kLatest.size());
  if (slot_of(plain) != nullptr) return plain;
  return std::nullopt;
}

std::shared_ptr<ModelPool::Slot> ModelPool::slot_of(const std::string& name) const {
  for (const auto& slot : slots_) {
    if (slot->source.name == name) return slot;
  }
  return nullptr;
}

ModelLease ModelPool::lease(const std::shared_ptr<Slot>& slot, bool uses) const {
  ++slot->users;
  return {std::make_shared<Hold>(*this, slot, uses), slot->model.get()};
}

void ModelPool::released(Slot& slot, bool used) const {
  {
    const std::lock_guard lock(mutex_);
    --slot.users;
    if (used) slot.used = Clock::now();
  }
  changed_.notify_all();
}

ModelLease ModelPool::find(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto slot = slot_of(name);
  return slot == nullptr || slot->model == nullptr ? nullptr : lease(slot, false);
}

std::vector<ModelPool::Entry> ModelPool::list() const {
  const std::lock_guard lock(mutex_);
  std::vector<Entry> all;
  for (const auto& slot : slots_) {
    const int users = slot->users;
    std::optional<double> left;
    if (slot->model != nullptr && options_.keep_seconds >= 0) {
      const std::chrono::duration<double> unused = Clock::now() - slot->used;
      left = std::max(0.0, options_.keep_seconds - (users > 0 ? 0 : unused.count()));
    }
    all.push_back({slot->source, slot->model == nullptr ? nullptr : lease(slot, false),
                   slot->loading, users, left});
  }
  return all;
}

void ModelPool::replace(std::vector<ModelSource> sources) {
  {
    const std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<Slot>> kept;
    for (ModelSource& source : sources) {
      std::shared_ptr<Slot> slot = slot_of(source.name);
      if (slot == nullptr || slot->source.path != source.path ||
          slot->source.draft != source.draft) {
        slot = std::make_shared<Slot>();
        slot->source = std::move(source);
      }
      kept.push_back(std::move(slot));
    }
    for (const auto& slot : slots_) {
      if (std::ranges::find(kept, slot) != kept.end()) continue;
      slot->offered = false;
      gone_.push_back(slot);
    }
    slots_ = std::move(kept);
  }
  changed_.notify_all();
}

void ModelPool::acquire(const std::string& name, Wanted wanted, Ready ready) {
  wait_for(name, false, std::move(wanted), std::move(ready));
}

void ModelPool::unload(const std::string& name, Wanted wanted, Ready ready) {
  wait_for(name, true, std::move(wanted), std::move(ready));
}

void ModelPool::wait_for(const std::string& name, bool unload, Wanted wanted, Ready ready) {
  Result<ModelLease> at_once = nullptr;
  bool waits = false;
  {
    const std::lock_guard lock(mutex_);
    const auto slot = slot_of(name);
    const auto wait = std::chrono::duration<double>(options_.wait_seconds);
    if (slot == nullptr) {
      at_once = tl::unexpected(Status(StatusCode::not_found, "the model is not offered any more"));
    } else if (ends_) {
      at_once = tl::unexpected(Status(StatusCode::busy, "the server is shutting down"));
    } else if (!unload && slot->model != nullptr && !slot->leaving) {
      at_once = lease(slot, true);
    } else {
      waits = true;
      waiters_.push_back({slot, unload,
                          Clock::now() + std::chrono::duration_cast<Clock::duration>(wait),
                          std::move(wanted), std::move(ready)});
    }
  }
  if (!waits) return ready(std::move(at_once));
  changed_.notify_all();
}

void ModelPool::run() {
  Lock lock(mutex_);
  while (!ends_) {
    if (step(lock)) continue;
    changed_.wait_until(lock, next_deadline());
  }
  waiters_.clear();
}

ModelPool::Clock::time_point ModelPool::next_deadline() const {
  auto next = Clock::now() + std::chrono::seconds(60);
  if (!waiters_.empty()) next = Clock::now() + kLook;
  if (options_.keep_seconds < 0) return next;
  const auto keep = std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double>(options_.keep_seconds));
  for (const auto& slot : slots_) {
    if (slot->model != nullptr && slot->users == 0) next = std::min(next, slot->used + keep);
  }
  return next;
}

bool ModelPool::step(Lock& lock) {
  if (drop_waiters(lock) || unload_old(lock)) return true;
  for (const auto& slot : slots_) slot->leaving = false;
  bool blocked = false;
  for (size_t i = 0; i < waiters_.size(); ++i) {
    if (serve_waiter(lock, i, blocked)) return true;
  }
  return false;
}

bool ModelPool::drop_waiters(Lock& lock) {
  for (auto waiter = waiters_.begin(); waiter != waiters_.end(); ++waiter) {
    Status status;
    if (!waiter->wanted()) {
      status = {StatusCode::cancelled, "no request waits for the model any more"};
    } else if (!waiter->slot->offered && !waiter->unload) {
      status = {StatusCode::not_found, "the model is not offered any more"};
    } else if (Clock::now() > waiter->until) {
      status = {
          StatusCode::busy,
          fmt::format("{} was not {} within {:g} seconds; try again", waiter->slot->source.name,
                      waiter->unload ? "unloaded" : "loaded", options_.wait_seconds)};
      waiter->slot->awaited = waiter->slot->loading;
    } else {
      continue;
    }
    const Waiter dropped = std::move(*waiter);
    waiters_.erase(waiter);
    lock.unlock();
    dropped.ready(tl::unexpected(status));
    lock.lock();
    return true;
  }
  return false;
}

template <typename Visit>
void ModelPool::each_loaded(Visit visit) const {
  for (const auto* slots : {&slots_, &gone_}) {
    for (const auto& slot : *slots) {
      if (slot->model != nullptr) visit(slot);
    }
  }
}

bool ModelPool::unload_old(Lock& lock) {
  for (auto slot = gone_.begin(); slot != gone_.end(); ++slot) {
    if ((*slot)->users > 0 || (*slot)->loading) continue;
    const auto removed = *slot;
    gone_.erase(slot);
    unload_slot(lock, removed, "it is not offered any more");
    return true;
  }
  if (options_.keep_seconds < 0) return false;
  const auto keep = std::chrono::duration<double>(options_.keep_seconds);
  for (size_t i = 0; i < slots_.size(); ++i) {
    const std::shared_ptr<Slot> slot = slots_[i];  // unload_slot() gives the lock up
    if (slot->model == nullptr || slot->users > 0 || Clock::now() < slot->used + keep) continue;
    unload_slot(lock, slot, "no request has used it for long");
    return true;
  }
  return false;
}

bool ModelPool::serve_waiter(Lock& lock, size_t index, bool& blocked) {
  const std::shared_ptr<Slot> slot = waiters_[index].slot;
  if (waiters_[index].unload) {
    slot->leaving = slot->users > 0;
    if (slot->leaving) return false;
    const Waiter served = std::move(waiters_[index]);
    waiters_.erase(waiters_.begin() + static_cast<int64_t>(index));
    unload_slot(lock, slot, "a request asked for it");
    lock.unlock();
    served.ready(nullptr);
    lock.lock();
    return true;
  }
  if (slot->leaving) return false;
  if (slot->model != nullptr) {
    answer(lock, slot, {});
    return true;
  }
  if (blocked) return false;  // one after the other
  if (load(lock, slot)) return true;
  blocked = true;
  return false;
}

bool ModelPool::load(Lock& lock, const std::shared_ptr<Slot>& slot) {
  LoadOptions load = options_.load;
  if (!slot->source.draft.empty()) load.draft_model = slot->source.draft;
  std::optional<int64_t> most = limit();
  Result<MemoryReport> plan =
      tl::unexpected(Status(StatusCode::does_not_fit, "other models take all memory"));
  const bool alone = least_recent(false) == nullptr && least_recent(true) == nullptr;
  if (most && (alone || slot->planned_at != changes_)) {
    load.memory_limit = *most;
    lock.unlock();
    plan = plan_model(slot->source.path, load);
    lock.lock();
  }
  if (!plan && plan.error().code() == StatusCode::does_not_fit) {
    if (shrink_caches(lock)) return true;
    slot->planned_at = changes_;
    // No other model has to go for one that does not fit alone either.
    if (budget_ != 0 && !alone) {
      load.memory_limit = budget_;
      lock.unlock();
      const Result<MemoryReport> whole = plan_model(slot->source.path, load);
      lock.lock();
      if (!whole) {
        answer(lock, slot, whole.error());
        return true;
      }
    }
    if (const auto idle = least_recent(false)) {
      unload_slot(lock, idle, "another model needs the memory");
      return true;
    }
    if (const auto busy = least_recent(true)) {
      busy->leaving = true;
      return false;
    }
  }
  if (!plan) {
    answer(lock, slot, alone && budget_ != 0 ? plan.error() : for_now(plan.error()));
    return true;
  }
  // A context should not depend on which model came first.
  if (const auto idle = least_recent(false);
      idle != nullptr && budget_ != 0 && options_.load.context == 0) {
    LoadOptions whole = load;
    whole.memory_limit = budget_;
    lock.unlock();
    const Result<MemoryReport> most = plan_model(slot->source.path, whole);
    lock.lock();
    if (most && most->context > plan->context) {
      if (!shrink_caches(lock) && idle->users == 0) {
        unload_slot(lock, idle, "another model needs the memory");
      }
      return true;
    }
  }
  load.progress = [&](double) {
    Lock asks(mutex_);
    while (drop_waiters(asks)) {
    }
    return !ends_ && (slot->awaited || is_wanted(slot));
  };
  slot->loading = true;
  slot->awaited = false;
  lock.unlock();
  tell(fmt::format("{} is being loaded", slot->source.name));
  auto engine = Engine::load(slot->source.path, load);
  Result<std::unique_ptr<ServedModel>> model = nullptr;
  if (engine) {
    model = ServedModel::create(*std::move(engine), slot->source.name, options_.template_source,
                                load.parallel, options_.most_waiting);
  } else {
    model = tl::unexpected(for_now(engine.error()));
  }
  if (!model) tell(fmt::format("{}: {}", slot->source.name, model.error().message()));
  lock.lock();
  slot->loading = false;
  slot->used = Clock::now();
  ++changes_;
  if (model) {
    slot->model = *std::move(model);
    slot->cache = slot->model->engine().memory().kv;
  }
  share_memory();
  // Whoever came after a load was cancelled begins another one.
  if (!model && model.error().code() == StatusCode::cancelled) return true;
  answer(lock, slot, model ? Status() : model.error());
  return true;
}

void ModelPool::unload_slot(Lock& lock, const std::shared_ptr<Slot>& slot, const char* why) {
  std::unique_ptr<ServedModel> model = std::move(slot->model);
  if (model == nullptr) return;
  lock.unlock();
  tell(fmt::format("{} is unloaded: {}", slot->source.name, why));
  model.reset();
  platform::give_back_memory();
  lock.lock();
  ++changes_;
  share_memory();
}

void ModelPool::share_memory() const {
  if (budget_ == 0) return;  // a cache grows by what is free on its devices then
  int64_t count = 0;
  each_loaded([&](const auto&) { ++count; });
  const int64_t part = count == 0 ? 0 : limit().value_or(0) / count;
  each_loaded([&](const auto& slot) {
    Engine& engine = slot->model->engine();
    engine.limit_cache(engine.memory().kv + part);
  });
}

bool ModelPool::shrink_caches(Lock& lock) {
  std::vector<std::shared_ptr<Slot>> grown;
  each_loaded([&](const auto& slot) {
    if (slot->users == 0 && slot->model->engine().memory().kv > slot->cache) grown.push_back(slot);
  });
  for (const auto& slot : grown) {
    // Only this thread unloads models.
    Engine& engine = slot->model->engine();
    const int64_t bytes = slot->cache;
    lock.unlock();
    const Status shrunk = engine.resize_cache(bytes);
    lock.lock();
    if (!shrunk.ok()) slot->cache = engine.memory().kv;
  }
  if (!grown.empty()) ++changes_;
  return !grown.empty();
}

void ModelPool::answer(Lock& lock, const std::shared_ptr<Slot>& slot, const Status& status) {
  std::vector<std::pair<Ready, Result<ModelLease>>> answers;
  for (auto waiter = waiters_.begin(); waiter != waiters_.end();) {
    if (waiter->slot != slot || waiter->unload) {
      ++waiter;
      continue;
    }
    if (status.ok()) {
      answers.emplace_back(std::move(waiter->ready), lease(slot, true));
    } else {
      answers.emplace_back(
          std::move(waiter->ready),
          tl::unexpected(for_clients(status, slot->source.path, slot->source.name)));
    }
    waiter = waiters_.erase(waiter);
  }
  lock.unlock();
  for (auto& [ready, result] : answers) ready(std::move(result));
  answers.clear();
  lock.lock();
}

bool ModelPool::is_wanted(const std::shared_ptr<Slot>& slot) {
  return std::ranges::any_of(waiters_, [&](const Waiter& waiter) {
    return waiter.slot == slot && !waiter.unload && waiter.wanted();
  });
}

std::shared_ptr<ModelPool::Slot> ModelPool::least_recent(bool in_use) const {
  std::shared_ptr<Slot> oldest;
  for (const auto* slots : {&slots_, &gone_}) {
    for (const auto& slot : *slots) {
      if (slot->model == nullptr || (slot->users > 0) != in_use) continue;
      if (oldest == nullptr || slot->used < oldest->used) oldest = slot;
    }
  }
  return oldest;
}

std::optional<int64_t> ModelPool::limit() const {
  if (budget_ == 0) return 0;  // of graphics cards the planner itself knows what is free
  std::map<std::string, int64_t> used;
  each_loaded([&](const auto& slot) {
    for (const DeviceMemoryReport& memory : slot->model->engine().memory().devices) {
      used[memory.device] += memory.weights + memory.kv + memory.activations + memory.scratch +
                             memory.other + memory.draft;
    }
  });
  int64_t most = 0;
  for (const auto& [device, bytes] : used) most = std::max(most, bytes);
  if (most >= budget_) return std::nullopt;
  return budget_ - most;
}

void ModelPool::tell(const std::string& text) const {
  if (options_.tell) options_.tell(text);
}

}  // namespace infer::server
