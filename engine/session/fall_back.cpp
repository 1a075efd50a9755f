// Going on on the CPU when another device has failed.
#include "engine/core/log.h"
#include "engine/session/engine_impl.h"

namespace infer {
namespace {

/// Loads the model on the first device, the CPU, and moves the sequences there.
Status move_to_cpu(Engine::Impl& engine) {
  OpenedModel& opened = engine.opened;
  MemoryPlan& plan = opened.plan;
  const KvOptions& options = engine.cache_options;
  // What the failed devices hold goes first: they may share the CPU's memory.
  INFER_TRY_S(auto empty, KvCache::create(opened.device_list(), {}, {}, {options.context, false}));
  empty->take_sequences(*engine.cache);
  engine.scheduler->move_to(*engine.executor, *empty, 1, 1);
  engine.cache = std::move(empty);
  engine.executor->release();
  opened.devices.resize(1);
  plan.devices.resize(1);
  plan.budgets.resize(1);
  plan.budgets[0].devices = {0};
  plan.kv_layout = {};
  plan.kv_pages.clear();
  plan.placement = {};

  PlanRequest request = opened.request;
  request.offload = 0;
  request.context = plan.context;
  request.others.clear();
  const std::vector<Device*> devices = opened.device_list();
  INFER_TRY_S(MemoryPlan planned, plan_memory(*opened.model, *opened.weights, devices, request));
  request.max_rows = planned.max_rows;
  request.max_outputs = planned.max_outputs;
  INFER_TRY_S(auto executor,
              Executor::create(*opened.model, *opened.weights, devices, request, planned, {}));
  INFER_TRY_S(auto cache, KvCache::create(devices, planned.kv_layout, planned.kv_pages, options));
  cache->take_sequences(*engine.cache);
  engine.scheduler->move_to(*executor, *cache, request.max_rows, request.max_outputs);
  plan = std::move(planned);
  opened.request = std::move(request);
  engine.former.push_back(std::exchange(engine.executor, std::move(executor)));
  engine.cache = std::move(cache);
  engine.set_growth();
  return {};
}

}  // namespace

void Engine::Impl::set_growth() {
  if (!grows) return;
  cache->set_growth([this](size_t kind) { return grow_cache(kind); });
}

bool Engine::Impl::fall_back(const Status& failure) {
  if (opened.devices.size() < 2) return false;  // the CPU itself
  log(LogLevel::warning, "{}; all goes on on the CPU", failure.message());
  // What drafts may be on the same device, and was measured with it.
  scheduler->set_speculator(nullptr);
  const std::lock_guard lock(placed_mutex);
  const Status moved = guarded([&] { return move_to_cpu(*this); });
  if (moved.ok()) return true;
  log(LogLevel::error, "the CPU cannot go on: {}", moved.message());
  return false;
}

}  // namespace infer
