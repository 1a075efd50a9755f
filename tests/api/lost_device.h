// An engine on a device that plays another than the CPU and can be lost.
#pragma once

#include "tests/api/model.h"
#include "tests/test_device.h"

namespace infer::test {

struct EngineThatFails {
  std::shared_ptr<std::atomic<bool>> lost;
  std::unique_ptr<Engine> engine;

  void lose() const { lost->store(true); }
  /// The CPU gets no room for the model when it is needed.
  void leave_no_room() const {
    Engine::Impl& impl = EngineAccess::impl(*engine);
    impl.thread->call([&] { impl.opened.request.memory_limit = 1 << 20; });
  }
};

/// All layers are on that device; the CPU may go on.
inline EngineThatFails load_on_device(LoadOptions options = {}, const std::string& path = kModel) {
  options.fallback = "cpu";
  options.threads = options.threads == 0 ? 2 : options.threads;
  if (options.context == 0) options.context = 512;
  OpenedModels models;
  models.main = std::move(OpenedModels::open(path, options).value().main);
  OpenedModel& main = models.main;
  auto device = std::make_unique<TestDevice>("test:0");
  device->free = int64_t{1} << 30;
  EngineThatFails made;
  made.lost = device->lost;
  main.devices.push_back(std::move(device));
  if (main.tower) {
    OpenedTower& tower = *main.tower;
    tower.plan =
        plan_memory(*tower.tower, *tower.weights, main.device_list(), tower.request).value();
    REQUIRE(tower.plan.devices.at(1).total() > 0);
    main.request.others.clear();
    for (const DevicePlan& device : tower.plan.devices) {
      main.request.others.push_back(device.total());
    }
  }
  main.plan = plan_memory(*main.model, *main.weights, main.device_list(), main.request).value();
  REQUIRE(main.plan.placement.offloaded() > 0);
  auto impl = Engine::Impl::load(path, std::move(models), options);
  REQUIRE_MESSAGE(impl.has_value(), impl.error().message());
  made.engine = Engine::Impl::wrap(*std::move(impl));
  return made;
}

}  // namespace infer::test
