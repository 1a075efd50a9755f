// The engine's host: models come and go, plans and counts of which the latest one matters.
#include "gui/host/engine_host.h"

#include <doctest.h>

#include <atomic>
#include <optional>

#include "gui/host/engine_log.h"
#include "tests/gui_host/pump.h"

using namespace infer;
using namespace infer::gui;
using namespace infer::test;

namespace {

/// Waits until the answer of a conversation has begun to come.
void wait_for_text(Pump& pump, int64_t conversation) {
  REQUIRE(eventually([&] {
    pump.poll();
    return !pump.content(conversation).empty();
  }));
}

LoadOptions small_options() {
  LoadOptions options;
  options.threads = 1;
  options.context = 512;
  return options;
}

}  // namespace

TEST_CASE("a model is loaded and unloaded, and the window is woken") {
  std::atomic<int> woken{0};
  Pump pump{EngineHost([&] { ++woken; })};
  CHECK(!pump.host.statistics().has_value());
  pump.host.unload();  // nothing is there, and nothing comes of it
  const Loaded loaded = pump.load(kSmall);
  CHECK(woken > 0);
  CHECK(pump.count<LoadProgress>() > 0);
  CHECK(loaded.model->architecture == "llama");
  CHECK(loaded.memory.context == 512);
  CHECK(loaded.memory.weights > 0);
  CHECK(loaded.devices.size() == 1);
  CHECK(loaded.options.context == 512);
  // What was planned is what is used.
  const Result<MemoryReport> planned = plan_model(kSmall, loaded.options);
  REQUIRE(planned.has_value());
  CHECK(planned->weights == loaded.memory.weights);
  CHECK(planned->kv == loaded.memory.kv);
  REQUIRE(pump.host.statistics().has_value());
  CHECK(pump.host.statistics()->calls_running == 0);
  pump.host.unload();
  CHECK(pump.wait_for<Unloaded>().path == kSmall);
  CHECK(!pump.host.statistics().has_value());
  CHECK(pump.count<Unloaded>() == 1);
}

TEST_CASE("what cannot be loaded is told, and the model that is there stays") {
  const TempDir folder;
  const std::string bad = folder.path("bad.gguf");
  write_bytes(bad, bytes_of("this is no model"));
  Pump pump;
  pump.load(kSmall);
  pump.host.load(bad, small_options());
  const LoadFailed failed = pump.wait_for<LoadFailed>();
  CHECK(failed.status.code() == StatusCode::bad_file);
  CHECK(failed.status.message().find("bad.gguf") != std::string::npos);
  pump.host.load(folder.path("absent.gguf"), small_options());
  CHECK(pump.wait_for<LoadFailed>().status.code() == StatusCode::not_found);
  CHECK(pump.count<Unloaded>() == 0);
  CHECK(pump.host.statistics().has_value());
}

TEST_CASE("what does not fit is told with what would") {
  Pump pump;
  LoadOptions options = small_options();
  options.context = 1 << 20;
  options.memory_limit = 64 << 20;
  pump.host.load(kSmall, options);
  const LoadFailed failed = pump.wait_for<LoadFailed>();
  CHECK(failed.status.code() == StatusCode::does_not_fit);
  REQUIRE(!failed.alternatives.empty());
  pump.host.load(kSmall, failed.alternatives.front().options);
  CHECK(pump.wait_for<Loaded>().memory.context > 0);
}

TEST_CASE("a load can be cancelled at any moment") {
  Pump pump;
  size_t cancelled = 0;
  for (int round = 0; round < 30; ++round) {
    pump.host.load(demo::model_path(), small_options());
    // At once, and when it has begun to read.
    if (round % 2 == 1) {
      REQUIRE(eventually([&] { return pump.poll() > 0; }));
    }
    pump.host.cancel_load();
    const size_t before = pump.taken;
    REQUIRE(eventually([&] {
      pump.poll();
      for (size_t i = before; i < pump.seen.size(); ++i) {
        if (std::holds_alternative<Loaded>(pump.seen[i])) return true;
        const auto* const failed = std::get_if<LoadFailed>(&pump.seen[i]);
        if (failed == nullptr) continue;
        CHECK(failed->status.code() == StatusCode::cancelled);
        ++cancelled;
        return true;
      }
      return false;
    }));
    pump.taken = pump.seen.size();
    pump.host.unload();
    pump.poll();
    pump.taken = pump.seen.size();
  }
  CHECK(cancelled > 0);
  // Nothing is left over that stands in the way of the next one.
  pump.host.load(kSmall, small_options());
  REQUIRE(eventually([&] {
    pump.poll();
    const auto* const last = pump.seen.empty() ? nullptr : std::get_if<Loaded>(&pump.seen.back());
    return last != nullptr && last->model->path == kSmall;
  }));
}

TEST_CASE("of several loads the last one counts") {
  Pump pump;
  for (int i = 0; i < 10; ++i) pump.host.load(demo::model_path(), small_options());
  pump.host.load(kSmall, small_options());
  REQUIRE(eventually([&] {
    pump.poll();
    const auto* const last = pump.seen.empty() ? nullptr : std::get_if<Loaded>(&pump.seen.back());
    return last != nullptr && last->model->path == kSmall;
  }));
  // Each has its end, and each model that came has gone but the last.
  CHECK(pump.count<Loaded>() + pump.count<LoadFailed>() == 11);
  CHECK(pump.count<Loaded>() == pump.count<Unloaded>() + 1);
}

TEST_CASE("a model goes when its answers have ended") {
  Pump pump;
  pump.load(demo::model_path());
  GenerateOptions options = greedy(200);
  options.ignore_end = true;
  pump.host.answer(asked(1, "Hello", options));
  wait_for_text(pump, 1);
  pump.host.unload(Ending::wait);
  const AnswerEnded ended = pump.wait_for<AnswerEnded>();
  CHECK(ended.status.ok());
  CHECK(ended.result.reason == FinishReason::length);
  CHECK(ended.result.generated_tokens == 200);
  pump.wait_for<Unloaded>();
}

TEST_CASE("a model that is to go takes no new answers") {
  Pump pump;
  pump.load(demo::model_path());
  pump.host.answer(asked(1, "Hello", endless()));
  wait_for_text(pump, 1);
  pump.host.load(kSmall, small_options(), Ending::wait);
  REQUIRE(eventually([&] {
    pump.poll();
    for (const EngineEvent& event : pump.seen) {
      const auto* const progress = std::get_if<LoadProgress>(&event);
      if (progress != nullptr && progress->waiting) return true;
    }
    return false;
  }));
  pump.host.answer(asked(2, "Hello", greedy(1)));
  const AnswerEnded refused = pump.wait_for<AnswerEnded>();
  CHECK(refused.conversation == 2);
  CHECK(refused.status.code() == StatusCode::invalid_argument);
  // The load is given up: all is as before.
  pump.host.cancel_load();
  CHECK(pump.wait_for<LoadFailed>().status.code() == StatusCode::cancelled);
  pump.host.answer(asked(2, "Hello", greedy(1)));
  CHECK(pump.wait_for<AnswerEnded>().status.ok());
  CHECK(pump.count<Unloaded>() == 0);
  // Another load stops what runs.
  pump.host.load(kSmall, small_options(), Ending::stop);
  const AnswerEnded stopped = pump.wait_for<AnswerEnded>();
  CHECK(stopped.conversation == 1);
  CHECK(stopped.status.ok());
  CHECK(stopped.result.reason == FinishReason::cancelled);
  pump.wait_for<Unloaded>();
  CHECK(pump.wait_for<Loaded>().model->path == kSmall);
}

TEST_CASE("of several plans the last one is answered, as plan_model() does") {
  Pump pump;
  LoadOptions options = small_options();
  for (int64_t i = 1; i <= 100; ++i) {
    options.context = 64 * i;
    pump.host.plan({i, kSmall, options});
  }
  REQUIRE(eventually([&] {
    pump.poll();
    const auto* const last = pump.seen.empty() ? nullptr : std::get_if<Planned>(&pump.seen.back());
    return last != nullptr && last->request == 100;
  }));
  const Planned last = std::get<Planned>(pump.seen.back());
  CHECK(last.status.ok());
  CHECK(last.model->architecture == "llama");
  CHECK(last.plan.context == 6400);
  const Result<MemoryReport> planned = plan_model(kSmall, options);
  REQUIRE(planned.has_value());
  CHECK(last.plan.weights == planned->weights);
  CHECK(last.plan.kv == planned->kv);
  CHECK(last.plan.activations == planned->activations);
}

TEST_CASE("a plan can be cancelled") {
  Pump pump;
  for (int64_t round = 1; round < 50; ++round) {
    pump.host.plan({-round, kSmall, small_options()});
    pump.host.cancel_plan();
    pump.host.plan({round, kSmall, small_options()});
    CHECK(pump.wait_for<Planned>().request == round);
  }
}

TEST_CASE("a plan that fails says why and what would fit") {
  const TempDir folder;
  Pump pump;
  pump.host.plan({1, folder.path("absent.gguf"), small_options()});
  const Planned absent = pump.wait_for<Planned>();
  CHECK(absent.status.code() == StatusCode::not_found);
  CHECK(absent.model == nullptr);
  LoadOptions options = small_options();
  options.context = 1 << 20;
  options.memory_limit = 64 << 20;
  pump.host.plan({2, kSmall, options});
  const Planned large = pump.wait_for<Planned>();
  CHECK(large.status.code() == StatusCode::does_not_fit);
  CHECK(large.model != nullptr);
  CHECK(!large.alternatives.empty());
}

TEST_CASE("the cache is resized while an answer goes on") {
  Pump pump;
  const Loaded loaded = pump.load(demo::model_path(), 1024);
  pump.host.answer(asked(1, "Hello", endless()));
  wait_for_text(pump, 1);
  pump.host.resize_cache(loaded.memory.kv / 2);
  const Memory halved = pump.wait_for<Memory>();
  CHECK_MESSAGE(halved.status.ok(), halved.status.message());
  CHECK(halved.memory.kv > 0);
  CHECK(halved.memory.kv <= loaded.memory.kv / 2);
  pump.host.ask_memory();
  CHECK(pump.wait_for<Memory>().memory.kv == halved.memory.kv);
  const size_t length = pump.content(1).size();
  CHECK(eventually([&] {
    pump.poll();
    return pump.content(1).size() > length;
  }));
  pump.host.unload();
  pump.wait_for<Unloaded>();
  pump.host.ask_memory();
  CHECK(pump.wait_for<Memory>().status.code() == StatusCode::invalid_argument);
}

TEST_CASE("what the engine says reaches the window") {
  std::atomic<int> woken{0};
  EngineLog log([&] { ++woken; });
  {
    // Some of its rows are no whole blocks, which is worth a warning.
    const TempDir folder;
    Pump pump;
    QuantizeJob job{data_path("golden/llama-f32.gguf"), folder.path("out.gguf"), {}};
    job.options.type = "Q8_0";
    pump.host.start(job);
    CHECK(pump.wait_for<JobEnded>().status.ok());
  }
  std::vector<LogLine> lines;
  log.poll([&](const LogLine& line) { lines.push_back(line); });
  REQUIRE(!lines.empty());
  CHECK(woken == 1);
  CHECK(!lines.front().text.empty());
  log.poll([&](const LogLine&) { CHECK(false); });
}

TEST_CASE("the machine's devices are told") {
  Pump pump;
  pump.host.ask_devices();
  const Devices found = pump.wait_for<Devices>();
  CHECK(found.status.ok());
  REQUIRE(!found.devices.empty());
  CHECK(found.devices.front().name == "cpu");
}

TEST_CASE("a host ends whatever it does") {
  for (int round = 0; round < 5; ++round) {
    Pump pump;
    if (round > 0) pump.load(demo::model_path());
    if (round > 1) pump.host.answer(asked(1, "Hello", endless()));
    if (round > 2) pump.host.load(kSmall, small_options(), Ending::wait);
    if (round > 3) pump.host.start(SelftestJob{small_options(), ""});
    pump.host.plan({1, kSmall, small_options()});
    pump.host.count({1, {}, {}, "Hello"});
    pump.host.resize_cache(1 << 20);
    pump.host.load(demo::model_path(), small_options(), Ending::wait);
  }
}
