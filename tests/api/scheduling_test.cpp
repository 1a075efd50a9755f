// Sessions that run at once: turns, waiting, cancelling.
#include <atomic>
#include <chrono>
#include <future>
#include <thread>

#include "engine/session/engine_impl.h"
#include "tests/api/model.h"

using namespace infer;
using namespace infer::test;
using namespace std::chrono_literals;

namespace {

std::unique_ptr<Engine> load_rows(int64_t context, int32_t rows, int32_t outputs = 16) {
  LoadOptions options;
  options.threads = 2;
  options.context = context;
  options.batch_rows = rows;
  options.output_rows = outputs;
  return load(options);
}

GenerateOptions endless() {
  GenerateOptions options = sampled(-1);
  options.overflow = ContextOverflow::shift;
  return options;
}

}  // namespace

TEST_CASE("two prompts of one step for which the cache has no room: one waits, none fails") {
  const auto engine = load_rows(512, 512);
  const auto one = open(*engine);
  const auto two = open(*engine);
  EngineAccess::impl(*engine).thread->hold(true);
  const auto run = [](Session& session, int32_t seed) {
    const auto result = session.generate(text(300, seed), sampled(5), {});
    return result ? std::string("ok") : result.error().message();
  };
  auto first = std::async(std::launch::async, [&] { return run(*one, 1); });
  auto second = std::async(std::launch::async, [&] { return run(*two, 2); });
  wait_for_sequences(*engine, 2);
  EngineAccess::impl(*engine).thread->hold(false);
  CHECK(first.get() == "ok");
  CHECK(second.get() == "ok");
}

/// A generation that shifts its context, cancelled by another session's reader when no token came
/// for a while. Returns whether it had shifted by then.
bool cancelled_while_shifting(Engine& engine) {
  const auto shifting = open(engine);
  const auto other = open(engine);
  std::atomic<int> told{0};
  int seen = 0, still = 0;
  GenerateOptions options = sampled(200);
  options.overflow = ContextOverflow::shift;
  options.keep = 10;
  EngineAccess::impl(engine).thread->hold(true);
  auto first = std::async(std::launch::async, [&] {
    return shifting
        ->generate(text(100, 2), options,
                   [&](int32_t token, std::string_view) {
                     told += token >= 0 ? 1 : 0;
                     return true;
                   })
        .has_value();
  });
  auto second = std::async(std::launch::async, [&] {
    return other
        ->generate({{5, 6}}, sampled(120),
                   [&](int32_t, std::string_view) {
                     still = told == seen && told >= 28 ? still + 1 : 0;
                     seen = told;
                     if (still == 3) shifting->cancel();
                     return true;
                   })
        .has_value();
  });
  wait_for_sequences(engine, 2);
  EngineAccess::impl(engine).thread->hold(false);
  CHECK(first.get());
  CHECK(second.get());
  const GenerateResult& result = shifting->statistics();
  CHECK(result.generated_tokens == told);
  CHECK(shifting->length() == 100 + told - result.shifted_tokens);
  return result.reason == FinishReason::cancelled && result.shifted_tokens > 0;
}

TEST_CASE("cancelled while a shifted context is computed anew: no token that was told is lost") {
  const auto engine = load_rows(128, 8);
  REQUIRE(engine->resize_cache(4 * engine->memory().kv).ok());
  // Readers may be delayed, and the cancel then comes too early or too late.
  bool met = false;
  for (int i = 0; i < 30 && !met; ++i) met = cancelled_while_shifting(*engine);
  CHECK(met);
}

TEST_CASE("who waits goes on as soon as the cache has been made larger") {
  const auto engine = load_rows(128, 64);
  const auto running = open(*engine);
  const auto waiting = open(*engine);
  std::atomic<int> told{0};
  auto first = std::async(std::launch::async, [&] {
    return running
        ->generate(text(120, 1), endless(),
                   [&](int32_t, std::string_view) {
                     ++told;
                     return true;
                   })
        .has_value();
  });
  while (told < 5) std::this_thread::sleep_for(1ms);
  auto second = std::async(std::launch::async,
                           [&] { return tokens_of(*waiting, text(100, 2), sampled(5)).size(); });
  CHECK(second.wait_for(500ms) == std::future_status::timeout);  // no room beside the first
  REQUIRE(engine->resize_cache(4 * engine->memory().kv).ok());
  CHECK(second.wait_for(60s) == std::future_status::ready);
  running->cancel();
  CHECK(first.get());
  CHECK(second.get() == 5);
}

TEST_CASE("who waits goes on when the one before shifts its context") {
  const auto engine = load_rows(128, 64);
  const auto running = open(*engine);
  const auto waiting = open(*engine);
  std::atomic<int> told{0};
  auto first = std::async(std::launch::async, [&] {
    return running
        ->generate(text(120, 1), endless(),
                   [&](int32_t, std::string_view) {
                     ++told;
                     return true;
                   })
        .has_value();
  });
  while (told < 1) std::this_thread::sleep_for(1ms);
  CHECK(tokens_of(*waiting, text(20, 2), sampled(2)).size() == 2);
  running->cancel();
  CHECK(first.get());
}

TEST_CASE("prompts and logits get their turn while others generate as much as a step holds") {
  struct Limits {
    int32_t rows, outputs;
  };
  for (const Limits limits : {Limits{1, 1}, Limits{64, 1}}) {
    CAPTURE(limits.rows);
    LoadOptions options;
    options.threads = 2;
    options.context = 512;
    options.batch_rows = limits.rows;
    options.output_rows = limits.outputs;
    const auto engine = Engine::load(kModel, options);
    REQUIRE(engine.has_value());
    const auto running = open(**engine);
    const auto other = open(**engine);
    std::atomic<int> told{0};
    EngineAccess::impl(**engine).thread->hold(true);
    auto first = std::async(std::launch::async, [&] {
      return running
          ->generate({{5}}, sampled(400),
                     [&](int32_t, std::string_view) {
                       ++told;
                       return true;
                     })
          .has_value();
    });
    std::atomic<int> at{-1};
    auto second = std::async(std::launch::async, [&] {
      return other
          ->evaluate(text(3, 2),
                     [&](int64_t, std::span<const float>) {
                       if (at < 0) at = told.load();
                       return true;
                     })
          .ok();
    });
    wait_for_sequences(**engine, 2);
    EngineAccess::impl(**engine).thread->hold(false);
    CHECK(first.get());
    CHECK(second.get());
    // Its first logits came while the other generated; the threads that count may lag behind.
    CHECK(at.load() < 300);
  }
}

TEST_CASE("logits come also beside more sessions that generate than a step holds") {
  const auto engine = load_rows(2048, 1, 1);
  std::vector<std::unique_ptr<Session>> generating;
  std::vector<std::future<bool>> running;
  std::atomic<int> told{0};
  EngineAccess::impl(*engine).thread->hold(true);
  for (int i = 0; i < 16; ++i) generating.push_back(open(*engine));  // before threads look at them
  for (int i = 0; i < 16; ++i) {
    running.push_back(std::async(std::launch::async, [&, i] {
      return generating[static_cast<size_t>(i)]
          ->generate({{5 + i}}, sampled(100),
                     [&](int32_t, std::string_view) {
                       ++told;
                       return true;
                     })
          .has_value();
    }));
  }
  const auto other = open(*engine);
  std::atomic<int> at{-1};
  auto logits = std::async(std::launch::async, [&] {
    return other
        ->evaluate(text(8, 2),
                   [&](int64_t, std::span<const float>) {
                     at = told.load();
                     return true;
                   })
        .ok();
  });
  wait_for_sequences(*engine, 17);
  EngineAccess::impl(*engine).thread->hold(false);
  CHECK(logits.get());
  for (auto& each : running) CHECK(each.get());
  // A row in every round of all is 8 · 17 tokens; the threads that count may lag behind. Without
  // its turn it would come last, after 16 · 100.
  CHECK(at.load() < 800);
}

TEST_CASE("fewer rows than asked for, where that is no power of two: steps are as planned") {
  LoadOptions options;
  options.threads = 2;
  options.context = 512;
  options.batch_rows = 300;
  const int64_t most = plan_model(kModel, options).value().total;
  for (int64_t limit = most - 1; limit > most / 2; limit -= most / 64) {
    options.memory_limit = limit;
    const auto engine = Engine::load(kModel, options);
    if (!engine) break;
    CAPTURE((*engine)->memory().batch_rows);
    const auto result = open(**engine)->generate(text(290, 1), sampled(2), {});
    CHECK_MESSAGE(result.has_value(), result.error().message());
    if (!result) break;
  }
}

namespace {

/// Waits until it may go; it ends with the first logits.
struct Held final : LooseSequence {
  std::atomic<bool> may_go{false};
  std::atomic<int> asked{0};

  explicit Held(Engine& e) : LooseSequence(e, kPrompt) { submit(); }
  bool ready(bool) override {
    ++asked;
    return may_go;
  }
  Outcome step(const LogitRow&) override { return {}; }
};

}  // namespace

TEST_CASE("who is not ready sits out: others go on, and the engine sleeps where there are none") {
  const auto engine = load();
  Held first(*engine);
  const std::vector<int32_t> expected = tokens_of(*open(*load()), kPrompt, sampled(20));
  CHECK(tokens_of(*open(*engine), kPrompt, sampled(20)) == expected);
  CHECK(first.asked >= 20);
  {
    Held second(*engine);
    wait_for_sequences(*engine, 2);
    const int before = first.asked + second.asked;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    CHECK(first.asked + second.asked - before <= 8);  // what was under way
    second.may_go = true;
    EngineAccess::impl(*engine).thread->wake();
    CHECK(second.ended.get_future().get().ok());
  }
  first.may_go = true;
  EngineAccess::impl(*engine).thread->wake();
  CHECK(first.ended.get_future().get().ok());
}

/// Takes long steps: the first waits until it may go on.
struct Blocking final : LooseSequence {
  std::promise<void> entered;
  std::promise<void> may_go;

  explicit Blocking(Engine& e) : LooseSequence(e, kPrompt) {
    submit();
    entered.get_future().wait();
  }
  Outcome step(const LogitRow&) override {
    entered.set_value();
    may_go.get_future().wait();
    return {};
  }
};

TEST_CASE("sessions are opened, begun and closed while a step is being computed") {
  const auto engine = load();
  const std::vector<int32_t> expected = tokens_of(*open(*engine), kPrompt, sampled(5));
  auto used = open(*engine);
  CHECK(tokens_of(*used, kPrompt, sampled(5)) == expected);
  Blocking blocking(*engine);
  // None of this waits for the step, which does not end before.
  used.reset();
  auto session = open(*engine);
  auto unused = open(*engine);
  CHECK(unused->number() > session->number());
  unused.reset();
  REQUIRE(session->start(kPrompt, sampled(5)).ok());
  CHECK(engine->statistics().sessions == 1);
  blocking.may_go.set_value();
  CHECK(blocking.ended.get_future().get().ok());
  std::vector<int32_t> tokens;
  for (;;) {
    const GenerateEvent event = session->next(60).value().value();
    if (event.finished) break;
    tokens.push_back(event.token);
  }
  CHECK(tokens == expected);
  session.reset();
  size_t left = 0;
  Engine::Impl& impl = EngineAccess::impl(*engine);
  impl.thread->call([&] { left = impl.cache->sequences(); });
  CHECK(left == 1);  // that of `blocking`
}

TEST_CASE("sessions that nothing was computed in can be forked, cut, saved and restored") {
  const auto engine = load();
  const TempDir folder;
  const auto session = open(*engine);
  CHECK(session->truncate(0).ok());
  CHECK(session->save(folder.path("empty")).ok());
  const auto copy = session->fork().value();
  const auto other = open(*engine);
  CHECK(other->restore(folder.path("empty")).ok());
  const std::vector<int32_t> expected = tokens_of(*open(*engine), kPrompt, sampled(5));
  for (Session* each : {session.get(), copy.get(), other.get()}) {
    CHECK(each->length() == 0);
    CHECK(tokens_of(*each, kPrompt, sampled(5)) == expected);
  }
}
