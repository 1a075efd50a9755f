// The engine for a window: one loaded model at a time, on threads of its own. Every call returns at
// once; what comes of it are events, which poll() delivers. A call that cannot be served ends with
// an event whose status says what to do.
//
// Threads. The one that draws calls everything here. `wake` is called on other threads.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "gui/host/engine_events.h"
#include "gui/host/event_queue.h"

namespace infer::gui {

class EngineHost {
 public:
  explicit EngineHost(WakeFn wake = {});
  /// Cancels everything and waits for it.
  ~EngineHost();
  EngineHost(const EngineHost&) = delete;
  EngineHost& operator=(const EngineHost&) = delete;

  /// Calls `see` for all events so far, in their order. `see` may call everything here but poll().
  size_t poll(const std::function<void(const EngineEvent&)>& see);

  /// Loads a model in the place of the one that is loaded: LoadProgress, then Loaded or LoadFailed.
  /// The old one stays if the new file cannot be read at all. A load that is under way is
  /// cancelled. New answers are refused until it is done.
  void load(std::string path, LoadOptions options, Ending ending = Ending::stop);
  /// Cancels load(), also while it waits for answers: LoadFailed with `cancelled`. The old model
  /// stays if it is still there. An unload() that waits for answers is cancelled, too.
  void cancel_load();
  /// Frees the model: Unloaded. Without a model nothing happens.
  void unload(Ending ending = Ending::stop);

  /// What loading would use: Planned. The answer to an earlier request is dropped.
  void plan(PlanRequest request);
  /// Drops the answer to plan().
  void cancel_plan();

  /// Generates an answer: AnswerPart, …, AnswerEnded. Several conversations may do so at once. What
  /// a conversation has computed is kept for its next answer.
  void answer(AnswerRequest request);
  /// Ends the answer of a conversation soon, at whatever it is. It keeps what it has.
  void stop(int64_t conversation);
  void stop_all();
  /// Frees what is kept of a conversation, after its answer has ended.
  void forget(int64_t conversation);
  /// Counts tokens of what is being typed: Counted. The answer to an earlier request is dropped.
  void count(CountRequest request);

  /// What the engine does now; nothing without a model. Does not wait.
  std::optional<EngineStatistics> statistics() const;
  /// The conversation that a session of the model is of; 0: none.
  int64_t conversation_of(int64_t session) const;
  /// Sets the bytes of the cache: Memory. Of several calls the last one counts.
  void resize_cache(int64_t bytes);
  /// What is used now: Memory.
  void ask_memory();
  /// The devices of this machine: Devices. Their drivers are loaded for it, which takes time.
  void ask_devices();

  /// Starts a job and returns its number: JobProgress, …, JobEnded. One runs at a time; a further
  /// one ends at once with `busy`.
  int64_t start(Job job);
  /// Ends the running job soon, with `cancelled`.
  void cancel_job();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace infer::gui
