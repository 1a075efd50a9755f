#include "gui/host/engine_host.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "gui/host/guard.h"
#include "gui/host/job_runner.h"
#include "gui/host/latest_task.h"
#include "gui/host/model.h"

namespace infer::gui {
namespace {

using Flag = std::shared_ptr<std::atomic<bool>>;

Flag new_flag() { return std::make_shared<std::atomic<bool>>(false); }

struct Command {
  bool loads = false;  ///< false: unloads
  std::string path;
  LoadOptions options;
  Ending ending = Ending::stop;
  Flag cancelled = new_flag();
};

Merge merge_load(EngineEvent& waiting, EngineEvent& next) {
  auto* const before = std::get_if<LoadProgress>(&waiting);
  if (before == nullptr) {
    const bool ends = std::holds_alternative<Loaded>(waiting) ||
                      std::holds_alternative<LoadFailed>(waiting) ||
                      std::holds_alternative<Unloaded>(waiting);
    return ends ? Merge::no : Merge::look_on;
  }
  const LoadProgress& now = std::get<LoadProgress>(next);
  if (before->path != now.path) return Merge::no;
  *before = now;
  return Merge::done;
}

const Status& no_model() {
  static const Status status(StatusCode::invalid_argument, "no model is loaded; open one first");
  return status;
}

Status cancelled_status() { return {StatusCode::cancelled, "loading was cancelled"}; }

}  // namespace

struct EngineHost::Impl {
  explicit Impl(WakeFn wake) : events(std::move(wake)) {}

  /// The model, as long as the object lives; null: there is none, or it is to go.
  class Use {
   public:
    explicit Use(Impl& host) : host_(host) {
      const std::lock_guard lock(host.mutex);
      if (host.model == nullptr || host.model->ending) return;
      model_ = host.model.get();
      ++model_->users;
    }
    ~Use() {
      if (model_ == nullptr) return;
      const std::lock_guard lock(host_.mutex);
      --model_->users;
      host_.changed.notify_all();
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    Model* get() const { return model_; }

   private:
    Impl& host_;
    Model* model_ = nullptr;
  };

  void run();
  void load(const Command& command);
  Status load_model(const Command& command, std::vector<Alternative>& fitting);
  Status release(const Command& command);
  Counted counted(const CountRequest& request);
  Memory memory_now(const std::function<Status(Engine&)>& change);
  void refuse(const Command& command);

  /// The number of a request that makes earlier ones void, with what they told and nobody took.
  template <typename Event>
  int64_t next(int64_t& wanted) {
    const std::lock_guard lock(mutex);
    events.drop([](const EngineEvent& event) { return std::holds_alternative<Event>(event); });
    return ++wanted;
  }
  /// Tells what came of a request, unless it is void.
  void tell(EngineEvent event, int64_t number, const int64_t& wanted) {
    const std::lock_guard lock(mutex);
    if (number == wanted) events.push(std::move(event));
  }

  EngineEvents events;
  std::mutex mutex;
  std::condition_variable changed;
  std::unique_ptr<Model> model;
  std::deque<Command> commands;
  Flag cancelled = new_flag();  ///< of the running command
  std::atomic<bool> ending{false};
  int64_t plan_number = 0;   ///< of the plan that is wanted
  int64_t count_number = 0;  ///< of the count that is wanted
  JobRunner jobs{events};
  LatestTask plans, counts, sizes, memories, machine;
  std::thread loader{[this] { run(); }};  // the last member: it uses the others
};

// ---------------------------------------------------------------------------------------------
// The thread that loads

void EngineHost::Impl::run() {
  std::unique_lock lock(mutex);
  for (;;) {
    changed.wait(lock, [&] { return ending || !commands.empty(); });
    if (commands.empty()) break;
    const Command command = std::move(commands.front());
    commands.pop_front();
    cancelled = command.cancelled;
    lock.unlock();
    if (command.loads) {
      load(command);
    } else {
      (void)release(command);
    }
    lock.lock();
  }
  lock.unlock();
  (void)release({});
}

void EngineHost::Impl::refuse(const Command& command) {
  if (command.loads) events.push(LoadFailed{command.path, cancelled_status(), {}});
}

void EngineHost::Impl::load(const Command& command) {
  std::vector<Alternative> fitting;
  Status status = guarded([&] { return load_model(command, fitting); });
  if (!status.ok()) {
    events.push(LoadFailed{command.path, std::move(status), std::move(fitting)});
  }
}

Status EngineHost::Impl::load_model(const Command& command, std::vector<Alternative>& fitting) {
  const std::string& path = command.path;
  const auto start = std::chrono::steady_clock::now();
  if (*command.cancelled) return cancelled_status();
  // What cannot be loaded at all does not cost the model that is there.
  const Result<DescriptionPtr> described = describe(path);
  if (!described) return described.error();
  if (!(*described)->unsupported.empty()) {
    return {StatusCode::unsupported, path + ": " + (*described)->unsupported};
  }
  if (Status released = release(command); !released.ok()) return released;

  Loaded loaded;
  loaded.model = *described;
  loaded.options = command.options;
  loaded.options.progress = {};
  LoadOptions options = loaded.options;
  options.progress = [&](double done) {
    events.push(LoadProgress{path, done, false}, merge_load);
    return !*command.cancelled;
  };
  Result<std::unique_ptr<Engine>> engine = Engine::load(path, options);
  if (!engine) {
    fitting = advice(path, loaded.options, engine.error());
    return engine.error();
  }
  auto made = std::make_unique<Model>();
  made->path = path;
  made->engine = *std::move(engine);
  made->answers = std::make_unique<Answers>(*made->engine, events, [this] {
    const std::lock_guard lock(mutex);
    changed.notify_all();
  });
  loaded.memory = made->engine->memory();
  loaded.devices = made->engine->devices();
  made->context = loaded.memory.longest;
  if (*command.cancelled) return cancelled_status();
  loaded.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  // With the lock held: what uses the model is told after this.
  const std::lock_guard lock(mutex);
  model = std::move(made);
  events.push(std::move(loaded));
  return {};
}

/// Waits until nobody uses the model, and frees it.
Status EngineHost::Impl::release(const Command& command) {
  std::unique_ptr<Model> gone;
  {
    std::unique_lock lock(mutex);
    if (model == nullptr) return {};
    model->ending = true;
    if (command.ending == Ending::stop) model->answers->stop_all();
    const auto unused = [&] { return model->users == 0 && model->answers->idle(); };
    if (command.loads && !unused()) {
      events.push(LoadProgress{command.path, 0, true}, merge_load);
    }
    changed.wait(lock, [&] { return unused() || *command.cancelled || ending; });
    if (ending) model->answers->stop_all();
    if (*command.cancelled && !ending) {
      model->ending = false;
      return cancelled_status();
    }
    changed.wait(lock, unused);
    gone = std::move(model);
  }
  const std::string path = gone->path;
  gone->answers.reset();
  gone->counted.reset();
  gone->engine.reset();
  events.push(Unloaded{path});
  return {};
}

// ---------------------------------------------------------------------------------------------
// Counts and sizes

Counted EngineHost::Impl::counted(const CountRequest& request) {
  Counted counted;
  counted.request = request.request;
  counted.status = guarded([&]() -> Status {
    const Use use(*this);
    if (use.get() == nullptr) return no_model();
    return count_tokens(*use.get(), request, counted);
  });
  return counted;
}

Memory EngineHost::Impl::memory_now(const std::function<Status(Engine&)>& change) {
  Memory memory;
  memory.status = guarded([&]() -> Status {
    const Use use(*this);
    if (use.get() == nullptr) return no_model();
    Engine& engine = *use.get()->engine;
    Status status = change ? change(engine) : Status();
    memory.memory = engine.memory();
    memory.devices = engine.devices();
    return status;
  });
  return memory;
}

// ---------------------------------------------------------------------------------------------
// The window's side

EngineHost::EngineHost(WakeFn wake) : impl_(std::make_unique<Impl>(std::move(wake))) {}

EngineHost::~EngineHost() {
  cancel_load();
  cancel_job();
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->ending = true;
    impl_->commands.clear();
    if (impl_->model != nullptr) impl_->model->answers->stop_all();
    impl_->changed.notify_all();
  }
  impl_->plans.end();
  impl_->counts.end();
  impl_->sizes.end();
  impl_->memories.end();
  impl_->machine.end();
  impl_->loader.join();
}

size_t EngineHost::poll(const std::function<void(const EngineEvent&)>& see) {
  const std::deque<EngineEvent> events = impl_->events.take();
  for (const EngineEvent& event : events) see(event);
  return events.size();
}

void EngineHost::load(std::string path, LoadOptions options, Ending ending) {
  Command command{true, std::move(path), std::move(options), ending};
  const std::lock_guard lock(impl_->mutex);
  *impl_->cancelled = true;
  for (const Command& dropped : impl_->commands) impl_->refuse(dropped);
  impl_->commands.clear();
  impl_->commands.push_back(std::move(command));
  impl_->changed.notify_all();
}

void EngineHost::cancel_load() {
  const std::lock_guard lock(impl_->mutex);
  *impl_->cancelled = true;
  for (const Command& command : impl_->commands) *command.cancelled = true;
  impl_->changed.notify_all();
}

void EngineHost::unload(Ending ending) {
  const std::lock_guard lock(impl_->mutex);
  *impl_->cancelled = true;
  for (const Command& dropped : impl_->commands) impl_->refuse(dropped);
  impl_->commands.clear();
  impl_->commands.push_back({false, {}, {}, ending});
  impl_->changed.notify_all();
}

void EngineHost::plan(PlanRequest request) {
  const int64_t number = impl_->next<Planned>(impl_->plan_number);
  impl_->plans.submit([impl = impl_.get(), request = std::move(request), number] {
    Planned planned = plan_of(request);
    impl->tell(std::move(planned), number, impl->plan_number);
  });
}

void EngineHost::cancel_plan() {
  impl_->next<Planned>(impl_->plan_number);
  impl_->plans.drop();
}

void EngineHost::answer(AnswerRequest request) {
  {
    const std::lock_guard lock(impl_->mutex);
    if (impl_->model != nullptr && !impl_->model->ending) {
      impl_->model->answers->start(std::move(request));
      return;
    }
  }
  AnswerEnded ended;
  ended.conversation = request.conversation;
  ended.status = no_model();
  impl_->events.push(std::move(ended));
}

void EngineHost::stop(int64_t conversation) {
  const std::lock_guard lock(impl_->mutex);
  if (impl_->model != nullptr) impl_->model->answers->stop(conversation);
}

void EngineHost::stop_all() {
  const std::lock_guard lock(impl_->mutex);
  if (impl_->model != nullptr) impl_->model->answers->stop_all();
}

void EngineHost::forget(int64_t conversation) {
  const std::lock_guard lock(impl_->mutex);
  if (impl_->model != nullptr) impl_->model->answers->forget(conversation);
}

void EngineHost::count(CountRequest request) {
  const int64_t number = impl_->next<Counted>(impl_->count_number);
  impl_->counts.submit([impl = impl_.get(), request = std::move(request), number] {
    Counted counted = impl->counted(request);
    impl->tell(std::move(counted), number, impl->count_number);
  });
}

std::optional<EngineStatistics> EngineHost::statistics() const {
  const std::lock_guard lock(impl_->mutex);
  if (impl_->model == nullptr) return std::nullopt;
  return impl_->model->engine->statistics();
}

int64_t EngineHost::conversation_of(int64_t session) const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->model == nullptr ? 0 : impl_->model->answers->conversation_of(session);
}

void EngineHost::resize_cache(int64_t bytes) {
  impl_->sizes.submit([impl = impl_.get(), bytes] {
    impl->events.push(
        impl->memory_now([bytes](Engine& engine) { return engine.resize_cache(bytes); }));
  });
}

void EngineHost::ask_memory() {
  impl_->memories.submit([impl = impl_.get()] { impl->events.push(impl->memory_now({})); });
}

void EngineHost::ask_devices() {
  impl_->machine.submit([impl = impl_.get()] {
    Devices found;
    found.status = guarded([&]() -> Status {
      found.devices = devices();
      return {};
    });
    impl->events.push(std::move(found));
  });
}

int64_t EngineHost::start(Job job) { return impl_->jobs.start(std::move(job)); }

void EngineHost::cancel_job() { impl_->jobs.cancel(); }

}  // namespace infer::gui
