// The parts of an Engine, for the library's own jobs and sessions.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/backend/device.h"
#include "engine/exec/executor.h"
#include "engine/kv/kv_cache.h"
#include "engine/model/arch.h"
#include "engine/sched/scheduler.h"
#include "engine/session/grammars.h"
#include "engine/session/opened_model.h"
#include "engine/spec/speculator.h"
#include "engine/text/tokenizer.h"
#include "infer/infer.hpp"

namespace infer {

/// What devices() says of one.
DeviceDescription describe(const DeviceInfo& info);

/// What describe_model() says, from an opened source.
ModelDescription describe(const std::string& path, const WeightSource& source);

/// Where memory is exhausted a message must not need any: this one is short enough to lie within
/// the string itself.
inline Status out_of_memory() { return {StatusCode::out_of_memory, "out of memory"}; }

/// The failure that an exception stands for; out_of_memory() if its message cannot be held.
Status caught(StatusCode code, const char* before, const char* what) noexcept;

/// Runs `body`, turning std::bad_alloc into StatusCode::out_of_memory and whatever else is thrown
/// (the system refuses a thread, for instance) into StatusCode::internal.
template <typename Body>
auto guarded(Body&& body) -> decltype(body()) {
  Status status;
  try {
    return body();
  } catch (const std::bad_alloc&) {
    status = out_of_memory();
  } catch (const std::exception& e) {
    status = caught(StatusCode::internal, "", e.what());
  } catch (...) {
    status = caught(StatusCode::internal, "", "an exception of an unknown type");
  }
  if constexpr (std::is_same_v<decltype(body()), Status>) {
    return status;
  } else {
    return tl::unexpected<Status>(std::move(status));
  }
}

/// Runs a caller's callback. What it throws becomes `failure`, so that it ends that caller's
/// request and no other; the result is then false.
template <typename Callback>
bool call_back(Status& failure, Callback&& callback) {
  try {
    return callback();
  } catch (const std::bad_alloc&) {
    failure = out_of_memory();
  } catch (const std::exception& e) {
    failure = caught(StatusCode::invalid_argument, "the callback threw: ", e.what());
  } catch (...) {
    failure = caught(StatusCode::invalid_argument, "the callback threw", "");
  }
  return false;
}

struct Vocabulary::Impl {
  std::shared_ptr<const Tokenizer> tokenizer;
};

/// Owns everything of a loaded model and the thread that computes its steps. Hidden: it would be
/// exported like the class that it is nested in.
struct __attribute__((visibility("hidden"))) Engine::Impl {
  OpenedModel opened;
  std::unique_ptr<OpenedModel> draft;  ///< the model that drafts; null: none, or a device failed
  ModelDescription description;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::unique_ptr<Vocabulary> vocabulary;
  std::unique_ptr<Grammars> grammars;
  std::unique_ptr<Executor> executor;
  std::unique_ptr<KvCache> cache;
  KvOptions cache_options;
  /// Null: no drafters, or a device failed. On the scheduler's thread.
  std::unique_ptr<Speculator> speculator;
  bool drafts = false;  ///< whether drafters were loaded
  std::unique_ptr<Scheduler> scheduler;

  ~Impl();
  static Result<std::unique_ptr<Impl>> load(const std::string& path, const LoadOptions& options);
  /// The same of models that are open and planned.
  static Result<std::unique_ptr<Impl>> load(const std::string& path, OpenedModels models,
                                            const LoadOptions& options);
  /// The public object.
  static std::unique_ptr<Engine> wrap(std::unique_ptr<Impl> impl);
  Status start();

  /// Runs `fn` on the scheduler's thread between steps and waits for it; what it throws comes out.
  /// Takes no memory, so that what has to be given back can be given back when there is none.
  void call(const std::function<void()>& fn);
  /// Gives a sequence to the scheduler; its on_done tells when it is back.
  void submit(Sequence* sequence);
  /// A sequence that was not ready may be by now. Any thread.
  void wake();
  /// Held while a mask is computed beside the scheduler's thread: one at a time bounds what they
  /// take.
  std::mutex mask_mutex;

  // Of the sessions' sequences.
  KvCache::SequenceId add_sequence();
  void remove_sequence(KvCache::SequenceId id);

  /// Where a device has failed: loads the model on the CPU, where every sequence goes on from its
  /// tokens. On the scheduler's thread. If that fails too, the engine is of no use any more: the
  /// failure is what usable() says from then on.
  Status fall_back(const Status& failure);
  /// Ok, or why nothing can be computed any more: what every call that would compute, save or
  /// change the cache fails with. Any thread.
  Status usable() const;
  /// Held while devices, plan, draft and broken change, and by other threads that look at them.
  mutable std::mutex placed_mutex;
  Status broken;  ///< by a fallback that failed
  /// Of devices that failed: steps that were recorded refer to their graphs.
  std::vector<std::unique_ptr<Executor>> former;

  /// While held, sequences are taken in but no step is computed, so that several begin together.
  void hold(bool held);

  /// The first that was asked for.
  Device& device() { return opened.main_device(); }
  // Of the cache's size; on the scheduler's thread.

  /// Bytes that the cache may have in a memory as long as the model is loaded: what loading had
  /// left for it there.
  int64_t cache_budget(const MemoryBudget& budget) const;
  /// Bytes that it may be given now: of what is free, less the reserve and what it has been given
  /// and not yet touched.
  int64_t free_for_cache(const MemoryBudget& budget) const;
  /// Bytes that it has there.
  int64_t cache_bytes(const MemoryBudget& budget) const;
  /// Whether the cache may have `bytes`, as these numbers of pages by kind. does_not_fit.
  Status check_cache_size(int64_t bytes, std::span<const int32_t> pages) const;
  /// Makes room for grammars in the plan, if it has none yet. does_not_fit. Any thread.
  Status plan_grammars();
  /// Engine::resize_cache().
  Status resize_cache(int64_t bytes);
  /// A step of growth of one kind of pages, if that may be.
  bool grow_cache(size_t kind);
  /// Lets the cache grow, if it may.
  void set_growth();
  bool grows = false;             ///< the cache, by itself
  int64_t cache_cap = INT64_MAX;  ///< bytes that it does not grow beyond by itself

 private:
  /// A call() that is waited for; it lies on its caller's stack.
  struct Call {
    const std::function<void()>& fn;
    Call* before = nullptr;
    bool done = false;
    std::exception_ptr failure;
  };

  void serve();
  void answer(Call* calls);
  void end_all(const Status& status);
  bool ready() const { return !held_ && !scheduler->idle(); }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable answered_;
  Call* calls_ = nullptr;  ///< the last one first
  std::vector<Sequence*> submitted_;
  bool woken_ = false;  ///< since the last step began
  bool stop_ = false;
  bool held_ = false;  ///< on the scheduler's thread
  std::thread thread_;
};

}  // namespace infer
