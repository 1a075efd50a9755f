// The parts of an Engine, for the library's own jobs and sessions.
#pragma once

#include <condition_variable>
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
#include "engine/text/tokenizer.h"
#include "infer/infer.hpp"

namespace infer {

/// A model as far as its header says, on a device that is open: what planning needs.
struct OpenedModel {
  std::unique_ptr<WeightSource> source;
  std::unique_ptr<Device> device;
  std::unique_ptr<Model> model;
  std::unique_ptr<WeightTable> weights;
  PlanRequest request;
  MemoryPlan plan;

  static Result<OpenedModel> open(const std::string& path, const LoadOptions& options);
};

/// What devices() says of one.
DeviceDescription describe(const DeviceInfo& info);

/// What describe_model() says, from an opened source.
ModelDescription describe(const std::string& path, const WeightSource& source);

/// Runs `body`, turning std::bad_alloc into StatusCode::out_of_memory and whatever else is thrown
/// (the system refuses a thread, for instance) into StatusCode::internal.
template <typename Body>
auto guarded(Body&& body) -> decltype(body()) {
  Status status;
  try {
    return body();
  } catch (const std::bad_alloc&) {
    status = Status(StatusCode::out_of_memory, "the host's memory is exhausted");
  } catch (const std::exception& e) {
    status = Status(StatusCode::internal, e.what());
  } catch (...) {
    status = Status(StatusCode::internal, "an exception of an unknown type");
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
    failure = Status(StatusCode::out_of_memory, "the host's memory is exhausted in a callback");
  } catch (const std::exception& e) {
    failure = Status(StatusCode::invalid_argument, std::string("the callback threw: ") + e.what());
  } catch (...) {
    failure = Status(StatusCode::invalid_argument, "the callback threw");
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
  ModelDescription description;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::unique_ptr<Vocabulary> vocabulary;
  std::unique_ptr<Executor> executor;
  std::unique_ptr<KvCache> cache;
  std::unique_ptr<Scheduler> scheduler;

  ~Impl();
  void start();

  /// Runs `fn` on the scheduler's thread between steps and waits for it; what it throws comes out.
  void call(const std::function<void()>& fn);
  /// Gives a sequence to the scheduler; its on_done tells when it is back.
  void submit(Sequence* sequence);

  /// While held, sequences are taken in but no step is computed, so that several begin together.
  void hold(bool held);

  Device& device() { return *opened.device; }

 private:
  void serve();
  bool ready() const { return !held_ && !scheduler->idle(); }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::function<void()>> tasks_;
  bool stop_ = false;
  bool held_ = false;  ///< on the scheduler's thread
  std::thread thread_;
};

}  // namespace infer
