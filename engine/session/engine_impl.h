// The parts of an Engine, for the library's own jobs and sessions.
#pragma once

#include <atomic>
#include <limits>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "engine/backend/device.h"
#include "engine/exec/executor.h"
#include "engine/generate/grammars.h"
#include "engine/kv/kv_cache.h"
#include "engine/model/arch.h"
#include "engine/sched/scheduler.h"
#include "engine/session/background.h"
#include "engine/session/engine_thread.h"
#include "engine/session/guarded.h"
#include "engine/session/opened_model.h"
#include "engine/spec/speculator.h"
#include "engine/text/tokenizer.h"
#include "infer/infer.hpp"

namespace infer {

/// What devices() says of one.
DeviceDescription describe(const DeviceInfo& info);

/// What a device of this name and place on the bus does now; nothing if nothing tells.
std::optional<GpuTelemetry> telemetry_of(const std::string& device, const std::string& pci);

/// What describe_model() says, from an opened source.
ModelDescription describe(const std::string& path, const WeightSource& source);

struct Vocabulary::Impl {
  std::shared_ptr<const Tokenizer> tokenizer;
};

/// For the library's own jobs.
struct SessionAccess {
  /// Session::evaluate() whose callback sees the rows where they lie: on the engine's thread, which
  /// waits for it.
  static Status evaluate_in_place(Session& session, std::span<const int32_t> tokens,
                                  const LogitsFn& on_logits);
};

/// For the library's own jobs and for tests.
struct EngineAccess {
  static Engine::Impl& impl(Engine& engine) { return *engine.impl_; }
};

/// A call that computes, from its admission until it has ended, as the engine's counters see it.
class CallCount {
 public:
  explicit CallCount(Counters& counters) : counters_(&counters) {}
  CallCount(CallCount&& other) noexcept : counters_(std::exchange(other.counters_, nullptr)) {}
  CallCount& operator=(CallCount&&) = delete;
  ~CallCount() { end(); }
  void end() {
    if (counters_ != nullptr) std::exchange(counters_, nullptr)->end_call();
  }

 private:
  Counters* counters_;
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
  std::unique_ptr<ImageReader> images;  ///< null: no images are read. On the engine's thread.
  int32_t image_token = kNoToken;       ///< TowerInfo::token in the vocabulary
  // TowerInfo::token, ::text, ::expanded and ::keeps_token:
  std::string image_mark, image_text, image_expanded;
  bool keeps_image_token = false;
  std::unique_ptr<KvCache> cache;
  KvOptions cache_options;
  /// Null: no drafters, or a device failed. On the engine's thread.
  std::unique_ptr<Speculator> speculator;
  /// Devices in use that have a place on the bus: name and place. Statistics, which never wait, ask
  /// for these.
  std::vector<std::pair<std::string, std::string>> gpus;
  mutable std::mutex gpus_mutex;
  int64_t text_rows = 0;       ///< most rows of a step of texts for embeddings
  bool drafts = false;         ///< whether drafters were loaded
  int64_t least_streamed = 0;  ///< MemoryPlan::least_streamed
  /// Whether a prompt of so many tokens is computed as generated tokens are.
  bool is_few(size_t tokens) const { return static_cast<int64_t>(tokens) < least_streamed; }
  Counters counters;
  std::unique_ptr<Scheduler> scheduler;

  ~Impl();
  static Result<std::unique_ptr<Impl>> load(const std::string& path, const LoadOptions& options,
                                            const OpenDevice& open);
  /// The same of models that are open and planned.
  static Result<std::unique_ptr<Impl>> load(const std::string& path, OpenedModels models,
                                            const LoadOptions& options);
  /// Engine::load() with another way to open devices.
  static Result<std::unique_ptr<Engine>> open(const std::string& path, const LoadOptions& options,
                                              const OpenDevice& open);
  /// The public object.
  static std::unique_ptr<Engine> wrap(std::unique_ptr<Impl> impl);
  /// Null while it is loaded.
  std::unique_ptr<EngineThread> thread;
  Background compilers{64};  ///< of grammars
  Background masks{1};       ///< one at a time bounds what they take

  /// Calls that may run or wait at once.
  int64_t most_calls = std::numeric_limits<int64_t>::max();
  /// A call that computes begins. busy.
  Result<CallCount> begin_call();
  // Of the sessions' sequences. A sequence comes into the cache when it is first computed.
  /// The id of a new one. Any thread.
  KvCache::SequenceId new_sequence() { return next_sequence++; }
  /// A new one with the same contents. Waits for a step to end.
  KvCache::SequenceId fork_sequence(KvCache::SequenceId id);
  /// A task that takes a sequence out of the cache. It is made with the session, so that nothing
  /// fails when the session ends.
  std::unique_ptr<EngineThread::Task> removal(KvCache::SequenceId id);
  std::atomic<KvCache::SequenceId> next_sequence{0};
  // On the engine's thread:
  /// Puts a sequence into the cache if it is not there.
  void ensure_sequence(KvCache::SequenceId id);
  /// Before a sequence is computed: does_not_fit if its tokens exceed the context. With nothing to
  /// compute, the last token is computed once more for its logits.
  Status prepare_sequence(const Sequence& sequence);
  /// What the last `count` tokens are may serve other sequences' drafts.
  void teach(const Sequence& sequence, int64_t count);

  /// Where a device has failed: loads the model on the CPU, where every sequence goes on from its
  /// tokens. On the engine's thread. If that fails too, the engine is of no use any more: the
  /// failure is what usable() says from then on.
  Status fall_back(const Status& failure);
  bool falls_back = false;  ///< whether that is wanted
  /// What `run` returns, a Result; of a second run on the CPU where a device failed and that is
  /// wanted. On the engine's thread, for what is computed beside the scheduler.
  template <typename Run>
  auto run_or_fall_back(Run run) {
    auto result = run();
    if (result || result.error().code() != StatusCode::device || !falls_back) return result;
    if (Status moved = fall_back(result.error()); !moved.ok()) {
      return decltype(result)(tl::unexpected(std::move(moved)));
    }
    return run();
  }
  /// Ok, or why nothing can be computed any more: what every call that would compute, save or
  /// change the cache fails with. Any thread.
  Status usable() const;
  /// Held while devices, plan, draft and broken change, and by other threads that look at them.
  mutable std::mutex placed_mutex;
  Status broken;  ///< by a fallback that failed
  /// Of devices that failed: steps that were recorded refer to their graphs.
  std::vector<std::unique_ptr<Executor>> former;

  /// What a session's sequence gets (Sequence::adapters) of SessionOptions::adapters.
  std::vector<float> adapter_factors(std::span<const float> given) const;
  /// Loads what reads images.
  Status load_images();
  /// TowerPictures::texts as tokens.
  Result<std::vector<int32_t>> picture_text(const std::string& text) const;
  /// The vectors of a text of these tokens, which the model takes (Engine::longest_text()): as it
  /// makes them, not normalised. Any thread.
  Result<Embeddings> embed_tokens(std::vector<int32_t> tokens);

  /// The first that was asked for.
  Device& device() { return opened.main_device(); }
  // Of the cache's size; on the engine's thread.

  /// Bytes that the cache may have in a memory as long as the model is loaded: what loading had
  /// left for it there.
  int64_t cache_budget(const MemoryBudget& budget) const;
  /// Bytes that it may be given now: of what is free, less the reserve and what it has been given
  /// and not yet touched.
  int64_t free_for_cache(const MemoryBudget& budget) const;
  /// Bytes that it has on a device, with what the drafters' caches there have grown by.
  int64_t grown_bytes(size_t device) const;
  /// Their sum over the devices of a memory.
  int64_t grown_bytes(const MemoryBudget& budget) const;
  /// Whether the cache may have `bytes`, as these numbers of pages by kind. does_not_fit.
  Status check_cache_size(int64_t bytes, std::span<const int32_t> pages) const;
  /// Makes room for grammars in the plan, if it has none yet. does_not_fit. Any thread.
  Status plan_grammars();
  /// Engine::resize_cache().
  Status resize_cache(int64_t bytes);
  /// A step of growth of one kind of pages of the cache or of a drafter's, if that may be.
  bool grow_cache(KvCache& its, size_t kind, KvCache::Want want);
  /// Lets the cache grow, if it may.
  void set_growth();
  bool grows = false;                          ///< the cache, by itself
  std::atomic<int64_t> cache_cap = INT64_MAX;  ///< bytes that it does not grow beyond by itself
};

}  // namespace infer
