#include <future>

#include "engine/core/checked.h"
#include "engine/core/log.h"
#include "engine/session/engine_impl.h"

namespace infer {
namespace {

Result<DType> cache_type(const std::string& name) {
  for (const DType type : {DType::f32, DType::f16, DType::bf16, DType::q8_0, DType::q4_0}) {
    if (dtype_from_name(name) == type) return type;
  }
  return fail(StatusCode::invalid_argument,
              "cache type '{}': expected f32, f16, bf16, q8_0 or q4_0", name);
}

MemoryReport report(const OpenedModel& opened) {
  const MemoryPlan& plan = opened.plan;
  MemoryReport r;
  r.device = opened.device->info().name;
  r.weights = plan.bytes[static_cast<size_t>(Purpose::weights)];
  r.kv = plan.bytes[static_cast<size_t>(Purpose::kv)];
  r.activations = plan.bytes[static_cast<size_t>(Purpose::activations)];
  r.scratch = plan.bytes[static_cast<size_t>(Purpose::scratch)];
  r.total = plan.total();
  r.available = plan.available;
  r.context = plan.context;
  r.page_bytes = plan.page_bytes;
  r.pages = plan.pages;
  return r;
}

}  // namespace

Result<OpenedModel> OpenedModel::open(const std::string& path, const LoadOptions& options) {
  OpenedModel opened;
  PlanRequest& request = opened.request;
  if (options.context < 0 || options.batch_rows < 1 || options.batch_rows > (1 << 16) ||
      options.output_rows < 1 || options.memory_limit < 0) {
    return fail(StatusCode::invalid_argument,
                "expected a context of at least 0, a batch of 1 to 65536 rows, at least one output "
                "row and a memory limit of at least 0");
  }
  request.context = options.context;
  request.max_rows = options.batch_rows;
  request.max_outputs = std::min(options.output_rows, options.batch_rows);
  request.memory_limit = options.memory_limit;
  request.weights_mapped = options.mmap;
  INFER_TRY(request.k_type, cache_type(options.cache_type_k));
  INFER_TRY(request.v_type, cache_type(options.cache_type_v));

  INFER_TRY(opened.source, open_model(path));
  INFER_TRY(opened.model, create_model(*opened.source));
  INFER_TRY(opened.device, open_device(options.device, {options.threads, options.exact,
                                                        !options.mmap, options.isa}));
  opened.weights = std::make_unique<WeightTable>(*opened.source);
  INFER_TRY(opened.plan, plan_memory(*opened.model, *opened.weights, *opened.device, request));
  return opened;
}

Result<MemoryReport> plan_model(const std::string& path, const LoadOptions& options) {
  return guarded([&]() -> Result<MemoryReport> {
    INFER_TRY(const OpenedModel opened, OpenedModel::open(path, options));
    return report(opened);
  });
}

// The thread that computes.

void Engine::Impl::start() {
  thread_ = std::thread([this] { serve(); });
}

Engine::Impl::~Impl() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void Engine::Impl::serve() {
  std::vector<std::function<void()>> tasks;  // kept: a step allocates nothing here
  for (;;) {
    bool stopping = false;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return stop_ || !tasks_.empty() || ready(); });
      stopping = stop_;
      tasks.swap(tasks_);
    }
    for (const std::function<void()>& task : tasks) task();
    tasks.clear();
    if (stopping) break;
    if (!ready()) continue;
    const Status status = guarded([&]() -> Status {
      scheduler->step();
      return {};
    });
    if (!status.ok()) scheduler->finish_all(status);
  }
  scheduler->finish_all(error(StatusCode::cancelled, "the engine was closed"));
}

void Engine::Impl::hold(bool held) {
  call([&] { held_ = held; });
}

void Engine::Impl::call(const std::function<void()>& fn) {
  // Shared: the waiting thread may be gone before set_value() has quite returned.
  const auto done = std::make_shared<std::promise<void>>();
  {
    const std::lock_guard lock(mutex_);
    tasks_.emplace_back([&fn, done] {
      try {
        fn();
        done->set_value();
      } catch (...) {
        done->set_exception(std::current_exception());
      }
    });
  }
  wake_.notify_all();
  done->get_future().get();
}

void Engine::Impl::submit(Sequence* sequence) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.emplace_back([this, sequence] {
      const Status status = guarded([&]() -> Status {
        scheduler->add(sequence);
        return {};
      });
      if (!status.ok()) sequence->on_done(status);
    });
  }
  wake_.notify_all();
}

// The public object.

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::~Engine() = default;

Result<std::unique_ptr<Engine>> Engine::load(const std::string& path, const LoadOptions& options) {
  return guarded([&]() -> Result<std::unique_ptr<Engine>> {
    auto impl = std::make_unique<Impl>();
    INFER_TRY(impl->opened, OpenedModel::open(path, options));
    OpenedModel& opened = impl->opened;
    impl->description = describe(path, *opened.source);
    const ModelInfo& info = opened.model->info();
    impl->description.vocabulary = info.vocabulary;
    INFER_TRY(impl->tokenizer, Tokenizer::create(opened.source->tokenizer()));
    auto vocabulary = std::make_unique<Vocabulary::Impl>();
    vocabulary->tokenizer = impl->tokenizer;
    impl->vocabulary.reset(new Vocabulary(std::move(vocabulary)));
    Status failure;
    ProgressFn progress;
    if (options.progress) {
      progress = [&](double done) {
        return call_back(failure, [&] { return options.progress(done); });
      };
    }
    Result<std::unique_ptr<Executor>> executor = Executor::create(
        *opened.model, *opened.weights, *opened.device, opened.request, opened.plan, progress);
    INFER_CHECK_R(failure);
    INFER_TRY(impl->executor, std::move(executor));
    INFER_TRY(impl->cache, KvCache::create(*opened.device, opened.plan.page_bytes,
                                           static_cast<int32_t>(opened.plan.pages)));
    impl->scheduler = std::make_unique<Scheduler>(
        *impl->executor, *impl->cache, opened.request.max_rows, opened.request.max_outputs);
    impl->start();
    return std::unique_ptr<Engine>(new Engine(std::move(impl)));
  });
}

const ModelDescription& Engine::model() const { return impl_->description; }

const Vocabulary& Engine::vocabulary() const { return *impl_->vocabulary; }

DeviceDescription Engine::device() const { return describe(impl_->opened.device->info()); }

MemoryReport Engine::memory() const {
  MemoryReport r = report(impl_->opened);
  const Device& device = *impl_->opened.device;
  r.weights = device.allocated(Purpose::weights);
  r.kv = device.allocated(Purpose::kv);
  r.activations = device.allocated(Purpose::activations);
  r.scratch = device.allocated(Purpose::scratch);
  r.total = r.weights + r.kv + r.activations + r.scratch;
  return r;
}

Result<std::vector<int32_t>> Engine::tokenize(std::string_view text,
                                              const TokenizeOptions& options) const {
  return impl_->vocabulary->tokenize(text, options);
}

std::string Engine::detokenize(std::span<const int32_t> tokens) const {
  return impl_->vocabulary->detokenize(tokens);
}

int32_t Engine::vocabulary_size() const {
  return static_cast<int32_t>(impl_->opened.model->info().vocabulary);
}

}  // namespace infer
