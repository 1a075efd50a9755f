#include <algorithm>
#include <limits>
#include <system_error>
#include <utility>

#include "engine/core/checked.h"
#include "engine/core/log.h"
#include "engine/session/engine_impl.h"
#include "engine/session/memory_report.h"
#include "engine/session/speculation.h"

namespace infer {
namespace {

/// "cpu, vulkan:0": the devices that compute something.
std::string names_of(const OpenedModel& opened) {
  std::string names;
  for (size_t d = 0; d < opened.devices.size(); ++d) {
    const DevicePlan& plan = opened.plan.devices[d];
    if (opened.devices.size() > 1 && plan.bytes[static_cast<size_t>(Purpose::weights)] == 0) {
      continue;
    }
    names += (names.empty() ? "" : ", ") + opened.devices[d]->info().name;
  }
  return names;
}

DeviceMemoryReport report_of(const OpenedModel& opened, size_t d) {
  const DevicePlan& plan = opened.plan.devices[d];
  const auto bytes = [&](Purpose purpose) { return opened.planned(d, purpose); };
  DeviceMemoryReport r;
  r.device = opened.devices[d]->info().name;
  r.weights = bytes(Purpose::weights);
  r.kv = bytes(Purpose::kv);
  r.activations = bytes(Purpose::activations);
  r.scratch = bytes(Purpose::scratch);
  r.other = bytes(Purpose::host) + bytes(Purpose::process) + plan.drafters + plan.grammars;
  for (const MemoryBudget& budget : opened.plan.budgets) {
    // If several budgets name the device, the last one is its own.
    if (std::ranges::find(budget.devices, static_cast<int32_t>(d)) != budget.devices.end()) {
      r.available = budget.available;
    }
  }
  r.computes =
      parts_of(opened.plan.placement, static_cast<int32_t>(d), opened.model->info().layers);
  r.streams = streamed_parts_of(opened.plan.placement, static_cast<int32_t>(d));
  return r;
}

/// `draft`: the model that drafts, null if there is none.
MemoryReport report(const OpenedModel& opened, const OpenedModel* draft) {
  const MemoryPlan& plan = opened.plan;
  const auto bytes = [&](Purpose purpose) {
    return plan.bytes(purpose) + opened.bytes_beside(purpose);
  };
  MemoryReport r;
  r.device = names_of(opened);
  r.weights = bytes(Purpose::weights);
  r.kv = bytes(Purpose::kv);
  r.activations = bytes(Purpose::activations);
  r.scratch = bytes(Purpose::scratch);
  r.host = bytes(Purpose::host);
  r.process = bytes(Purpose::process);
  r.batch_rows = static_cast<int32_t>(plan.max_rows);
  r.cache_type_k = dtype_info(plan.k_type).name;
  r.cache_type_v = dtype_info(plan.v_type).name;
  r.spilled = plan.spilled;
  if (draft != nullptr) r.draft = draft->plan.total();
  r.drafters = plan.drafters();
  r.grammars = plan.grammars();
  r.total = plan.total() + opened.bytes_beside() + r.draft;
  r.available = plan.available();
  r.context = plan.context;
  r.longest = plan.longest;
  for (size_t k = 0; k < plan.kv_pages.size(); ++k) {
    const KvKind& kind = plan.kv_layout.kinds[k];
    if (kind.state) {
      r.states += kind.page_bytes * plan.kv_pages[k];
      continue;
    }
    r.page_bytes += kind.page_bytes;
    r.pages = std::max<int64_t>(r.pages, plan.kv_pages[k]);
  }
  for (size_t d = 0; d < plan.devices.size(); ++d) r.devices.push_back(report_of(opened, d));
  if (draft != nullptr) {
    const std::vector<int64_t> bytes = draft->planned_bytes();
    for (size_t d = 0; d < std::min(bytes.size(), r.devices.size()); ++d) {
      r.devices[d].draft = bytes[d];
    }
  }
  r.layers = opened.model->info().layers;
  r.gpu_layers = plan.placement.offloaded();
  r.cpu_experts = plan.placement.host_experts();
  r.streamed_from = plan.least_streamed;
  r.refused = plan.placement.refused;
  return r;
}

/// Assumed speed of reading a spilled model: that of a plain solid-state disk.
constexpr double kDiskBytesPerSecond = 1e9;

void warn_of_spill(const OpenedModel& opened) {
  const MemoryPlan& plan = opened.plan;
  if (!plan.spilled) return;
  log(LogLevel::warning,
      "every step reads the weights ({}) from the file, {} at a time: about {:.1f} s a token from "
      "a disk of 1 GB/s",
      format_bytes(plan.file_weights), format_bytes(plan.bytes(Purpose::weights)),
      static_cast<double>(plan.file_weights) / kDiskBytesPerSecond);
}

/// Whether a failure to load may come from a device.
bool is_of_device(StatusCode code) {
  return code == StatusCode::device || code == StatusCode::out_of_memory ||
         code == StatusCode::not_found || code == StatusCode::unsupported;
}

/// Logs which device computes what, so that a placement other than the wanted one is seen.
void tell_placement(const OpenedModel& opened) {
  const Placement& placement = opened.plan.placement;
  for (const std::string& refused : placement.refused) log(LogLevel::warning, "{}", refused);
  if (opened.devices.size() == 1) return;
  const int64_t layers = opened.model->info().layers;
  for (size_t d = 0; d < opened.devices.size(); ++d) {
    const std::string parts = parts_of(placement, static_cast<int32_t>(d), layers);
    log(LogLevel::info, "{}: {}", opened.devices[d]->info().name,
        parts.empty() ? "nothing" : parts);
    const std::string streamed = streamed_parts_of(placement, static_cast<int32_t>(d));
    if (streamed.empty()) continue;
    log(LogLevel::info, "{}: of prompts of {} tokens or more also {}, with weights from the host",
        opened.devices[d]->info().name, opened.plan.least_streamed, streamed);
  }
}

}  // namespace

MemoryReport memory_report(const OpenedModels& models) {
  return report(models.main, models.draft.get());
}

Result<MemoryReport> plan_model(const std::string& path, const LoadOptions& options) {
  return guarded([&]() -> Result<MemoryReport> {
    INFER_TRY(const OpenedModels opened, OpenedModels::open(path, options, true));
    return memory_report(opened);
  });
}

// The sessions' sequences.

Engine::Impl::~Impl() {
  // First, since work in the background calls the engine's thread.
  compilers.stop();
  masks.stop();
  thread.reset();
}

Result<CallCount> Engine::Impl::begin_call() {
  if (!counters.begin_call(most_calls)) {
    return fail(StatusCode::busy,
                "the engine is busy: {} calls run or wait, and it takes no more (max_waiting)",
                most_calls);
  }
  return CallCount(counters);
}

KvCache::SequenceId Engine::Impl::fork_sequence(KvCache::SequenceId id) {
  const KvCache::SequenceId made = new_sequence();
  thread->call([&] {
    if (cache->has_sequence(id)) cache->fork(id, made);
  });
  return made;
}

std::unique_ptr<EngineThread::Task> Engine::Impl::removal(KvCache::SequenceId id) {
  return std::make_unique<EngineThread::Task>([this, id] {
    if (!cache->has_sequence(id)) return;
    if (speculator) speculator->forget(id);
    cache->remove_sequence(id);
  });
}

void Engine::Impl::ensure_sequence(KvCache::SequenceId id) {
  if (!cache->has_sequence(id)) cache->add_sequence(id);
}

Status Engine::Impl::prepare_sequence(const Sequence& sequence) {
  INFER_CHECK(usable());
  ensure_sequence(sequence.kv);
  const auto size = static_cast<int64_t>(sequence.tokens.size());
  const int64_t context = std::min(sequence.context, cache->context());
  if (size > context && sequence.keep < 0) {
    return error(StatusCode::does_not_fit, "{} tokens do not fit: the context holds {}", size,
                 context);
  }
  if (size == cache->length(sequence.kv)) cache->rollback(sequence.kv, size - 1);
  return {};
}

void Engine::Impl::teach(const Sequence& sequence, int64_t count) {
  if (!speculator || count == 0) return;
  const auto from = std::max<int64_t>(0, static_cast<int64_t>(sequence.tokens.size()) - count);
  // A failure here does not fail the generation, which is complete.
  static_cast<void>(guarded([&]() -> Status {
    speculator->learn(sequence.kv, sequence.tokens, from);
    return {};
  }));
}

// The public object.

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::~Engine() = default;

Result<std::unique_ptr<Engine::Impl>> Engine::Impl::load(const std::string& path,
                                                         const LoadOptions& options,
                                                         const OpenDevice& open) {
  return guarded([&]() -> Result<std::unique_ptr<Impl>> {
    INFER_TRY(OpenedModels models, OpenedModels::open(path, options, false, open));
    return load(path, std::move(models), options);
  });
}

Result<std::unique_ptr<Engine::Impl>> Engine::Impl::load(const std::string& path,
                                                         OpenedModels models,
                                                         const LoadOptions& options) {
  return guarded([&]() -> Result<std::unique_ptr<Impl>> {
    auto impl = std::make_unique<Impl>();
    impl->opened = std::move(models.main);
    impl->draft = std::move(models.draft);
    OpenedModel& opened = impl->opened;
    warn_of_spill(opened);
    tell_placement(opened);
    const std::vector<Device*> devices = opened.device_list();
    impl->description = describe(path, *opened.source);
    const ModelInfo& info = opened.model->info();
    impl->description.vocabulary = info.vocabulary;
    INFER_TRY(impl->tokenizer, Tokenizer::create(opened.source->tokenizer()));
    auto vocabulary = std::make_unique<Vocabulary::Impl>();
    vocabulary->tokenizer = impl->tokenizer;
    impl->grammars = std::make_unique<Grammars>(impl->tokenizer);
    impl->vocabulary.reset(new Vocabulary(std::move(vocabulary)));
    Status failure;
    ProgressFn progress;
    if (options.progress) {
      progress = [&](double done) {
        return call_back(failure, [&] { return options.progress(done); });
      };
    }
    Result<std::unique_ptr<Executor>> executor = Executor::create(
        *opened.model, *opened.weights, devices, opened.request, opened.plan, progress);
    INFER_CHECK_R(failure);
    INFER_TRY(impl->executor, std::move(executor));
    INFER_CHECK_R(impl->load_images());
    impl->cache_options = {opened.plan.longest, options.prefix_reuse, options.cache_folder,
                           options.cache_folder_limit, opened.request.draft_states};
    INFER_TRY(impl->cache, KvCache::create(devices, opened.plan.kv_layout, opened.plan.kv_pages,
                                           impl->cache_options));
    impl->grows = options.context == 0;
    GrowCache grow;
    if (impl->grows) {
      grow = [&engine = *impl](KvCache& cache, size_t kind, KvCache::Want want) {
        return engine.grow_cache(cache, kind, want);
      };
    }
    INFER_TRY(impl->speculator, create_speculator(opened, impl->draft.get(), *impl->executor,
                                                  *impl->cache, options, impl->tokenizer, grow));
    impl->scheduler = std::make_unique<Scheduler>(
        *impl->executor, *impl->cache, opened.request.max_rows, opened.request.max_outputs);
    impl->scheduler->set_counters(&impl->counters);
    impl->scheduler->tell_pages();
    impl->scheduler->set_speculator(impl->speculator.get());
    impl->drafts = impl->speculator != nullptr;
    impl->least_streamed = opened.plan.least_streamed;
    if (options.max_waiting >= 0) {
      impl->most_calls = int64_t{options.parallel} + options.max_waiting;
    }
    impl->set_growth();
    impl->text_rows = opened.request.max_rows;
    impl->falls_back = options.fallback == "cpu" && opened.devices.size() > 1;
    if (impl->falls_back) {
      impl->scheduler->set_recovery(
          [&engine = *impl](const Status& failure) { return engine.fall_back(failure); });
    }
    impl->thread = std::make_unique<EngineThread>(*impl->scheduler);
    for (const auto& device : opened.devices) {
      const DeviceInfo info = device->info();
      if (!info.pci.empty()) impl->gpus.emplace_back(info.name, info.pci);
    }
    impl->counters.start();
    INFER_CHECK_R(impl->thread->start());
    return impl;
  });
}

Result<std::unique_ptr<Engine>> Engine::load(const std::string& path, const LoadOptions& options) {
  return Impl::open(path, options, open_device);
}

Result<std::unique_ptr<Engine>> Engine::Impl::open(const std::string& path,
                                                   const LoadOptions& options,
                                                   const OpenDevice& open) {
  return guarded([&]() -> Result<std::unique_ptr<Engine>> {
    if (!options.fallback.empty() && options.fallback != "cpu") {
      return fail(StatusCode::invalid_argument, "fallback '{}': expected cpu or nothing",
                  options.fallback);
    }
    Result<std::unique_ptr<Impl>> impl = load(path, options, open);
    const bool other = options.device != "cpu" && options.device != "cpu:0";
    if (!impl && other && options.fallback == "cpu" && is_of_device(impl.error().code())) {
      log(LogLevel::warning, "{}; continuing on the CPU", impl.error().message());
      LoadOptions rest = options;
      rest.device = "cpu";
      impl = load(path, rest, open);
    }
    INFER_CHECK_R(impl ? Status() : impl.error());
    return wrap(*std::move(impl));
  });
}

std::unique_ptr<Engine> Engine::Impl::wrap(std::unique_ptr<Impl> impl) {
  return std::unique_ptr<Engine>(new Engine(std::move(impl)));
}

const ModelDescription& Engine::model() const { return impl_->description; }

const Vocabulary& Engine::vocabulary() const { return *impl_->vocabulary; }

std::vector<DeviceDescription> Engine::devices() const {
  const std::lock_guard lock(impl_->placed_mutex);
  std::vector<DeviceDescription> all;
  for (const auto& device : impl_->opened.devices) all.push_back(describe(device->info()));
  return all;
}

EngineStatistics Engine::statistics() const {
  EngineStatistics statistics = impl_->counters.read();
  const std::lock_guard lock(impl_->gpus_mutex);
  for (const auto& [device, pci] : impl_->gpus) {
    if (auto told = telemetry_of(device, pci)) statistics.gpus.push_back(*std::move(told));
  }
  return statistics;
}

void Engine::limit_cache(int64_t bytes) { impl_->cache_cap = bytes; }

Status Engine::resize_cache(int64_t bytes) {
  return guarded([&]() -> Status {
    if (bytes < 0) {
      return error(StatusCode::invalid_argument, "a cache of {} bytes: expected at least 0", bytes);
    }
    Status status;
    impl_->thread->call([&] { status = impl_->resize_cache(bytes); });
    return status;
  });
}

MemoryReport Engine::memory() const {
  const std::lock_guard lock(impl_->placed_mutex);
  const OpenedModel& opened = impl_->opened;
  MemoryReport r = report(opened, impl_->draft.get());
  if (const OpenedModel* const draft = impl_->draft.get(); draft != nullptr) {
    for (size_t d = 0; d < draft->devices.size(); ++d) {
      r.draft += draft->devices[d]->allocated(Purpose::kv) - draft->planned(d, Purpose::kv);
    }
  }
  r.weights = r.kv = r.activations = r.scratch = 0;
  for (size_t d = 0; d < opened.devices.size(); ++d) {
    const Device& device = *opened.devices[d];
    DeviceMemoryReport& own = r.devices[d];
    // Pages of a mapped file are the system's, not the device's.
    own.weights = device.allocated(Purpose::weights) + opened.plan.devices[d].mapped;
    own.kv = device.allocated(Purpose::kv);
    own.activations = device.allocated(Purpose::activations);
    own.scratch = device.allocated(Purpose::scratch);
    r.weights += own.weights;
    r.kv += own.kv;
    r.activations += own.activations;
    r.scratch += own.scratch;
  }
  r.total = r.weights + r.kv + r.activations + r.scratch + r.host + r.process + r.draft +
            r.drafters + r.grammars;
  if (const int64_t pages = impl_->counters.most_pages();
      pages != r.pages) {  // of another size now
    r.pages = pages;
    r.context = std::min(pages * kPageTokens, r.longest);
  }
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
