// Continues on the CPU after another device has failed.
#include <utility>

#include "engine/core/log.h"
#include "engine/session/engine_impl.h"

namespace infer {
namespace {

/// The tower's plan on the CPU; nothing without a tower or without room for it.
void plan_tower(OpenedModel& opened, Device* cpu) {
  if (!opened.tower) return;
  PlanRequest& request = opened.tower->request;
  request.offload = 0;
  Result<MemoryPlan> planned =
      plan_memory(*opened.tower->tower, *opened.tower->weights, {&cpu, 1}, request);
  if (planned) {
    opened.tower->plan = *std::move(planned);
  } else {
    log(LogLevel::warning, "images are not read any more: {}", planned.error().message());
    opened.tower.reset();
  }
}

/// Loads the model on the first device, the CPU, and moves the sequences there.
Status move_to_cpu(Engine::Impl& engine) {
  OpenedModel& opened = engine.opened;
  MemoryPlan& plan = opened.plan;
  const KvOptions& options = engine.cache_options;
  // The draft model may be on the failed device, and its speed was measured there.
  engine.scheduler->set_speculator(nullptr);
  engine.speculator.reset();
  engine.draft.reset();
  opened.heads.clear();
  const uint64_t seed = engine.images ? engine.images->seed() : 0;
  engine.images.reset();
  engine.former.reserve(engine.former.size() + 1);
  // Frees what the failed devices hold before planning, since they may share the CPU's memory.
  Device* const cpu[] = {opened.devices[0].get()};
  INFER_TRY_S(auto empty, KvCache::create(cpu, {}, {}, {options.context, false}));
  empty->take_sequences(*engine.cache);
  engine.scheduler->move_to(*engine.executor, *empty, 1, 1);
  engine.cache = std::move(empty);
  engine.executor->release();
  opened.devices.resize(1);
  {
    const std::lock_guard lock(engine.gpus_mutex);
    engine.gpus.clear();
  }
  plan.devices.resize(1);
  plan.budgets.resize(1);
  plan.budgets[0].devices = {0};
  plan.kv_layout = {};
  plan.kv_pages.clear();
  plan.placement = {};
  plan.devices[0].drafters = 0;

  PlanRequest request = opened.request;
  request.offload = 0;
  request.weight_devices.clear();
  request.context = plan.context;
  plan_tower(opened, cpu[0]);
  request.others.clear();
  if (opened.tower) request.others.push_back(opened.tower->plan.total());
  // A text is one step, and texts of that size have been promised.
  if (opened.model->info().embeds) request.fewer_rows = false;
  request.drafters = {};
  Result<MemoryPlan> fits = plan_memory(*opened.model, *opened.weights, cpu, request);
  if (!fits && opened.tower) {
    log(LogLevel::warning, "images are not read any more: there is no room for what reads them");
    opened.tower.reset();
    request.others.clear();
    fits = plan_memory(*opened.model, *opened.weights, cpu, request);
  }
  INFER_TRY_S(MemoryPlan planned, std::move(fits));
  planned.longest = options.context;
  request.max_rows = planned.max_rows;
  request.max_outputs = planned.max_outputs;
  INFER_TRY_S(auto executor,
              Executor::create(*opened.model, *opened.weights, cpu, request, planned, {}));
  INFER_TRY_S(auto cache, KvCache::create(cpu, planned.kv_layout, planned.kv_pages, options));
  cache->take_sequences(*engine.cache);
  engine.scheduler->move_to(*executor, *cache, request.max_rows, request.max_outputs);
  plan = std::move(planned);
  opened.request = std::move(request);
  engine.former.push_back(std::exchange(engine.executor, std::move(executor)));
  engine.cache = std::move(cache);
  engine.set_growth();
  if (!opened.tower) return {};
  auto images = ImageReader::create(*opened.tower, cpu, seed);
  if (images) {
    engine.images = *std::move(images);
  } else {
    log(LogLevel::warning, "images are not read any more: {}", images.error().message());
    opened.tower.reset();
  }
  return {};
}

}  // namespace

void Engine::Impl::set_growth() {
  if (!grows) return;
  cache->set_growth(
      [this](size_t kind, KvCache::Want want) { return grow_cache(*cache, kind, want); });
}

Status Engine::Impl::fall_back(const Status& failure) {
  const std::lock_guard lock(placed_mutex);
  INFER_CHECK(broken);
  if (opened.devices.size() < 2) return failure;  // the CPU itself has failed
  log(LogLevel::warning, "{}; continuing on the CPU", failure.message());
  const Status moved = guarded([&] { return move_to_cpu(*this); });
  if (moved.ok()) return {};
  broken = out_of_memory();  // stays if there is no memory for the message
  static_cast<void>(guarded([&]() -> Status {
    broken = error(StatusCode::device,
                   "a device failed ({}), and the CPU cannot take over: {}. Load the model again, "
                   "with a smaller context or on another device",
                   failure.message(), moved.message());
    log(LogLevel::error, "{}", broken.message());
    return {};
  }));
  return broken;
}

Status Engine::Impl::usable() const {
  const std::lock_guard lock(placed_mutex);
  return broken;
}

}  // namespace infer
