// EngineStatistics: exact numbers of what was done, read at any time from any thread.
#include <algorithm>
#include <atomic>
#include <future>
#include <thread>

#include "tests/api/model.h"

using namespace infer;
using namespace infer::test;

namespace {

std::unique_ptr<Engine> load_reusing(int64_t context, bool reuse = true) {
  LoadOptions options;
  options.threads = 1;
  options.context = context;
  options.batch_rows = 64;
  options.prefix_reuse = reuse;
  return load(options);
}

int64_t sum(const CachePages& pages) {
  return pages.running + pages.idle + pages.kept + pages.free;
}

/// All values of a histogram.
int64_t values(const Histogram& histogram) {
  REQUIRE(histogram.counts.size() == histogram.bounds.size() + 1);
  CHECK(std::ranges::is_sorted(histogram.bounds));
  CHECK(std::ranges::is_sorted(histogram.counts));
  return histogram.counts.back();
}

/// A sequence that asks for the statistics in the middle of a step.
struct Asking final : LooseSequence {
  Engine& asked;
  std::promise<EngineStatistics> seen;

  explicit Asking(Engine& e) : LooseSequence(e, kPrompt), asked(e) { submit(); }
  ~Asking() override { ended.get_future().wait(); }
  Outcome step(const LogitRow&) override {
    seen.set_value(asked.statistics());
    return {};
  }
};

}  // namespace

TEST_CASE("statistics: tokens, steps, prefixes and pages of what was done") {
  const auto engine = load_reusing(512);
  EngineStatistics s = engine->statistics();
  const int64_t pages = s.pages.total;
  CHECK(pages == engine->memory().pages);
  CHECK(s.pages.free == pages);
  CHECK(s.steps == 0);
  CHECK(s.sessions == 0);
  auto session = open(*engine);
  CHECK(engine->statistics().sessions == 1);
  REQUIRE(tokens_of(*session, text(300, 1), sampled(40)).size() == 40);
  s = engine->statistics();
  CHECK(s.prompt_tokens == 300);
  CHECK(s.generated_tokens == 40);
  CHECK(s.recomputed_tokens == 0);
  CHECK(s.steps == 5 + 39);  // the last token is not computed
  CHECK(values(s.step_rows) == s.steps);
  CHECK(s.step_rows.sum == 300 + 39);
  CHECK(s.last_step_rows == 1);
  CHECK(s.step_rows.counts[0] == 39);                         // of one row
  CHECK(s.step_rows.counts[6] - s.step_rows.counts[5] == 5);  // of 33 to 64
  CHECK(s.prefix_tokens == 300);
  CHECK(s.prefix_tokens_found == 0);
  CHECK(values(s.first_token_seconds) == 1);
  CHECK(values(s.next_token_seconds) == 39);
  CHECK(s.first_token_seconds.sum == session->statistics().first_token_seconds);
  CHECK(s.next_token_seconds.sum <= session->statistics().generate_seconds * 1.001);
  CHECK(s.generated_tokens_per_s > 0);
  CHECK(s.prompt_tokens_per_s > 0);
  CHECK(s.calls_running == 0);
  CHECK(s.calls_waiting == 0);
  CHECK(s.pages.running == 0);
  CHECK(s.pages.idle == 6);  // of 339 tokens
  CHECK(s.pages.kept == 0);
  CHECK(sum(s.pages) == pages);

  // One that begins alike takes the full pages over, as far as it has to compute nothing else.
  auto other = open(*engine);
  REQUIRE(tokens_of(*other, text(300, 1), sampled(1)).size() == 1);
  s = engine->statistics();
  CHECK(s.prefix_tokens == 600);
  CHECK(s.prefix_tokens_found == 299);
  CHECK(s.prompt_tokens == 300 + 1);
  CHECK(s.generated_tokens == 41);
  CHECK(s.pages.idle == 7);
  CHECK(s.sessions == 2);
  // Each holds its own and four that both hold.
  REQUIRE(s.session_pages.size() == 2);
  CHECK(s.session_pages[0].session == session->number());
  CHECK(s.session_pages[1].session == other->number());
  CHECK(s.session_pages[0].held == 6);
  CHECK(s.session_pages[1].held == 5);
  CHECK(s.session_pages[0].shared == 4);
  CHECK(s.session_pages[1].shared == 4);
  const auto copy = session->fork();
  CHECK(engine->statistics().pages.idle == 7);
  CHECK(engine->statistics().sessions == 3);
  other.reset();
  session.reset();
  CHECK(engine->statistics().pages.idle == 6);
  REQUIRE((*copy)->truncate(0).ok());
  s = engine->statistics();
  CHECK(s.pages.idle == 0);
  CHECK(s.pages.kept == 5);
  CHECK(s.pages.free == pages - 5);
  CHECK(s.sessions == 1);
}

TEST_CASE("statistics: what is computed again is told apart") {
  const auto engine = load_reusing(256, false);
  const auto session = open(*engine);
  REQUIRE(tokens_of(*session, kPrompt, sampled(60)).size() == 60);
  REQUIRE(tokens_of(*open(*engine), text(250, 3), sampled(5)).size() == 5);  // takes its pages
  const EngineStatistics before = engine->statistics();
  REQUIRE(tokens_of(*session, {}, sampled(10)).size() == 10);
  const EngineStatistics after = engine->statistics();
  CHECK(after.recomputed_tokens - before.recomputed_tokens == 63);
  CHECK(after.prompt_tokens == before.prompt_tokens);
  CHECK(after.generated_tokens - before.generated_tokens == 10);
  CHECK(after.step_rows.sum - before.step_rows.sum == 63 + 10);
  CHECK(after.prefix_tokens == 0);  // nothing is kept
  CHECK(after.pages.kept == 0);
}

TEST_CASE("statistics: proposals of drafters") {
  LoadOptions options;
  options.threads = 1;
  options.context = 512;
  options.drafters = {"ngram"};
  const auto engine = Engine::load(kModel, options);
  REQUIRE(engine.has_value());
  GenerateOptions generate = sampled(60);
  generate.sampling.temperature = 0.0f;
  generate.draft_tokens = 4;
  const auto result = open(**engine)->generate(text(100, 1), generate, {});
  REQUIRE(result.has_value());
  const EngineStatistics s = (*engine)->statistics();
  CHECK(s.drafted_tokens > 0);
  CHECK(s.drafted_tokens == result->speculation.drafted);
  CHECK(s.accepted_tokens == result->speculation.accepted);
  CHECK(s.generated_tokens == 60);
  CHECK(values(s.next_token_seconds) == 59);
}

TEST_CASE("statistics: calls that wait and calls that run; nobody waits for a step") {
  const auto engine = load_reusing(512);
  Engine::Impl& impl = EngineAccess::impl(*engine);
  const auto one = open(*engine);
  const auto two = open(*engine);
  impl.thread->hold(true);
  REQUIRE(one->start(kPrompt, sampled(40)).ok());
  REQUIRE(two->start(kPrompt, sampled(40)).ok());
  wait_for_sequences(*engine, 2);
  CHECK(engine->statistics().calls_waiting == 2);
  CHECK(engine->statistics().calls_running == 0);
  CHECK(engine->statistics().steps == 0);
  impl.thread->hold(false);
  // Nobody takes the tokens: both stop where 32 of them wait.
  while (engine->statistics().generated_tokens < 64) std::this_thread::yield();
  EngineStatistics s = engine->statistics();
  CHECK(s.calls_running == 2);
  CHECK(s.calls_waiting == 0);
  one->cancel();
  two->cancel();
  for (Session* session : {one.get(), two.get()}) {
    while (!session->next(60).value().value().finished) {
    }
  }
  s = engine->statistics();
  CHECK(s.calls_running == 0);
  CHECK(s.calls_waiting == 0);

  Asking asking(*engine);
  s = asking.seen.get_future().get();
  CHECK(s.sessions == 2);
}

TEST_CASE("statistics: a call that fails or is refused leaves nothing behind") {
  const auto engine = load_reusing(128);
  const auto session = open(*engine);
  CHECK(!session->generate(text(300, 1), sampled(5), {}).has_value());
  CHECK(!session->generate({{-1}}, sampled(5), {}).has_value());
  GenerateOptions bad = sampled(5);
  bad.grammar = "root ::= nothing";
  CHECK(!session->generate(kPrompt, bad, {}).has_value());
  CHECK(session->evaluate(kPrompt, [](int64_t, std::span<const float>) { return false; }).ok());
  CHECK(session->generate({}, sampled(0), {}).has_value());
  const EngineStatistics s = engine->statistics();
  CHECK(s.calls_running == 0);
  CHECK(s.calls_waiting == 0);
  CHECK(s.generated_tokens == 0);
  CHECK(s.pages.running == 0);
  CHECK(s.calls_refused == 0);
}

TEST_CASE("statistics: read by another thread while sessions generate") {
  const auto engine = load_reusing(512);
  constexpr int64_t kSessions = 3;
  std::atomic<bool> done{false};
  int64_t most_running = 0;
  std::atomic<int64_t> most_pages{0};
  std::thread reader([&] {
    EngineStatistics last;
    while (!done) {
      EngineStatistics s = engine->statistics();
      CHECK(s.steps >= last.steps);
      CHECK(s.prompt_tokens >= last.prompt_tokens);
      CHECK(s.generated_tokens >= last.generated_tokens);
      CHECK(values(s.step_rows) == s.steps);
      CHECK(s.calls_running + s.calls_waiting <= kSessions);
      CHECK(s.pages.total == sum(s.pages));
      CHECK(engine->devices().size() == 1);
      most_running = std::max(most_running, s.calls_running);
      most_pages = std::max<int64_t>(most_pages, s.pages.running);
      last = std::move(s);
    }
  });
  // Pages are told about ten times a second while steps are computed.
  int64_t rounds = 0;
  for (; rounds == 0 || (most_pages == 0 && rounds < 1000); ++rounds) {
    std::vector<std::thread> threads;
    for (int i = 0; i < kSessions; ++i) {
      threads.emplace_back(
          [&, i] { CHECK(tokens_of(*open(*engine), text(100, i), sampled(60)).size() == 60); });
    }
    for (std::thread& thread : threads) thread.join();
  }
  done = true;
  reader.join();
  CHECK(most_running > 0);
  CHECK(most_pages > 0);
  const EngineStatistics s = engine->statistics();
  CHECK(s.generated_tokens == rounds * kSessions * 60);
  CHECK(s.prompt_tokens + s.recomputed_tokens >= kSessions * 100);
  CHECK(s.pages.running == 0);
  CHECK(s.sessions == 0);
}

TEST_CASE("statistics: after cache pages came and went, and a resize") {
  const auto engine = load_reusing(512);
  const auto session = open(*engine);
  REQUIRE(tokens_of(*session, text(100, 1), sampled(5)).size() == 5);
  const int64_t page = engine->memory().page_bytes;
  REQUIRE(engine->resize_cache(40 * page).ok());
  EngineStatistics s = engine->statistics();
  CHECK(s.pages.total == engine->memory().kv / page);
  CHECK(s.pages.idle == 2);
  REQUIRE(engine->resize_cache(0).ok());
  s = engine->statistics();
  CHECK(s.pages.total == 0);
  CHECK(s.pages.idle == 0);
  const std::vector<DeviceDescription> devices = engine->devices();
  REQUIRE(devices.size() == 1);
  CHECK(devices[0].name == "cpu");
  CHECK(devices[0].memory_free > 0);
  CHECK(devices[0].memory_free <= devices[0].memory_total);
}
