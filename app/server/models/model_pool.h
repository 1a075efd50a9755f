// The models that a server offers: loaded when a request wants one, unloaded when another one needs
// the memory or when nobody has wanted them for long.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "infer/infer.hpp"
#include "server/models/model.h"

namespace infer::server {

/// What a model is loaded from.
struct ModelSource {
  std::string name;
  std::string path;
  std::string draft;  ///< path of a model that drafts for it; empty: none
  int64_t bytes = 0;  ///< of its files; 0: not known
};

struct PoolOptions {
  LoadOptions load;             ///< of every model
  int32_t most_waiting = -1;    ///< requests that may wait for a place of a model; -1: any number
  std::string template_source;  ///< in place of the models' own; may be empty
  double keep_seconds = 300;    ///< an unused model stays so long; negative: for ever
  double wait_seconds = 60;     ///< a request waits so long for its model
  /// Told what is loaded and unloaded, and what failed; may be empty.
  std::function<void(const std::string&)> tell;
};

/// A model that stays loaded as long as somebody holds this.
using ModelLease = std::shared_ptr<ServedModel>;

class ModelPool {
 public:
  /// Of a request that waits: what it gets, and whether it still wants it.
  using Ready = std::function<void(Result<ModelLease>)>;
  using Wanted = std::function<bool()>;

  /// One model that is loaded already and stays so, whatever a request calls it.
  explicit ModelPool(std::unique_ptr<ServedModel> model);
  ModelPool(std::vector<ModelSource> sources, PoolOptions options);
  /// All leases must be gone.
  ~ModelPool();
  ModelPool(const ModelPool&) = delete;
  ModelPool& operator=(const ModelPool&) = delete;

  /// Whether there is one model, of any name.
  bool single() const { return single_; }
  /// How models are loaded that are not yet.
  const LoadOptions& load_options() const { return options_.load; }
  /// The name of the model that a client's name means; an empty one means the first model. Nothing
  /// if there is none.
  std::optional<std::string> resolve(const std::string& name) const;

  // `name`: from resolve(). `ready` is called once, on any thread, and returns at once; `wanted` is
  // asked meanwhile. Errors: those of loading; does_not_fit: it is more than all models may have;
  // out_of_memory: there is no room now; busy: the model did not come in time; not_found: it is not
  // offered any more; cancelled: nobody wants it.

  void acquire(const std::string& name, Wanted wanted, Ready ready);
  /// Of a pool of several models. `ready` gets null when the model is not loaded any more: requests
  /// that use it end first.
  void unload(const std::string& name, Wanted wanted, Ready ready);

  /// The model if it is loaded. Looking at it does not count as use.
  ModelLease find(const std::string& name) const;

  struct Entry {
    ModelSource source;
    ModelLease model;  ///< null: not loaded
    bool loading = false;
    int users = 0;
    /// Seconds until the model is unloaded if no request wants it meanwhile. Nothing: it stays.
    std::optional<double> left;
  };
  /// All models, in their order.
  std::vector<Entry> list() const;
  /// Seconds since 1970 at which the server began to offer models.
  int64_t created() const { return created_; }

  /// Offers these models in place of the present ones. Those that are missing are unloaded when
  /// their requests have ended.
  void replace(std::vector<ModelSource> sources);

  /// Unloads nothing and loads nothing any more; requests that wait get nothing.
  void stop();

 private:
  using Clock = std::chrono::steady_clock;
  struct Slot;
  struct Hold;
  struct Waiter {
    std::shared_ptr<Slot> slot;
    bool unload = false;
    Clock::time_point until;
    Wanted wanted;
    Ready ready;
  };
  using Lock = std::unique_lock<std::mutex>;

  /// `uses`: for a request, not for somebody who looks.
  ModelLease lease(const std::shared_ptr<Slot>& slot, bool uses) const;
  std::shared_ptr<Slot> slot_of(const std::string& name) const;
  void wait_for(const std::string& name, bool unload, Wanted wanted, Ready ready);
  void released(Slot& slot, bool used) const;

  // The loader's thread. Functions that take the lock give it up while they work.
  void run();
  /// Does one thing that can be done now. False: there is nothing.
  bool step(Lock& lock);
  bool drop_waiters(Lock& lock);
  bool unload_old(Lock& lock);
  bool serve_waiter(Lock& lock, size_t index, bool& blocked);
  /// Makes room for a model and loads it. False: it has to wait for a model that is in use.
  bool load(Lock& lock, const std::shared_ptr<Slot>& slot);
  void unload_slot(Lock& lock, const std::shared_ptr<Slot>& slot, const char* why);
  /// Answers all that wait for the model.
  void answer(Lock& lock, const std::shared_ptr<Slot>& slot, const Status& status);
  bool is_wanted(const std::shared_ptr<Slot>& slot);
  std::shared_ptr<Slot> least_recent(bool in_use) const;
  template <typename Visit>
  void each_loaded(Visit visit) const;
  /// Lets the caches of loaded models grow by equal parts of what none of them uses.
  void share_memory() const;
  /// Gives the caches of models that nobody uses the size that they were loaded with. False: none
  /// has grown.
  bool shrink_caches(Lock& lock);
  /// Memory that loaded models leave of what the server may use. Nothing: none is left.
  std::optional<int64_t> limit() const;
  Clock::time_point next_deadline() const;
  void tell(const std::string& text) const;

  const bool single_;
  PoolOptions options_;
  int64_t budget_ = 0;
  int64_t created_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::vector<std::shared_ptr<Slot>> slots_;  // those that are offered
  std::vector<std::shared_ptr<Slot>> gone_;   // loaded ones that are not any more
  std::deque<Waiter> waiters_;
  int64_t changes_ = 0;  // of what is loaded
  bool ends_ = false;
  std::thread loader_;
};

}  // namespace infer::server
