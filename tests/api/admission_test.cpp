// Who is taken, who goes first, and how much one session may have.
#include <algorithm>
#include <atomic>
#include <future>

#include "tests/api/model.h"

using namespace infer;
using namespace infer::test;
using namespace std::chrono_literals;

namespace {

std::unique_ptr<Engine> load_limited(LoadOptions options) {
  options.threads = 1;
  return load(options);
}

LoadOptions of(int64_t context, int32_t rows = 512) {
  LoadOptions options;
  options.context = context;
  options.batch_rows = rows;
  options.output_rows = std::min(rows, 16);
  return options;
}

void take_all(Session& session) {
  for (;;) {
    const auto event = session.next(60);
    REQUIRE(event.has_value());
    REQUIRE(event->has_value());
    if ((*event)->finished) return;
  }
}

/// A sequence that notes when it gets a result.
struct Noting final : LooseSequence {
  int id;
  std::vector<int>& log;
  int left;

  Noting(Engine& e, int i, int32_t priority, int64_t prompt, int results, std::vector<int>& to)
      : LooseSequence(e, text(prompt, i)), id(i), log(to), left(results) {
    sequence.priority = priority;
    submit();
  }
  Outcome step(const LogitRow&) override {
    log.push_back(id);
    return {5, --left > 0};
  }
};

}  // namespace

TEST_CASE("priority: rows go to the highest first, and in turns among equal ones") {
  const auto engine = load_limited(of(512, 1));
  Engine::Impl& impl = EngineAccess::impl(*engine);
  std::vector<int> log;
  impl.thread->hold(true);
  Noting low(*engine, 0, -1, 3, 5, log);
  Noting one(*engine, 1, 0, 3, 5, log);
  Noting high(*engine, 2, 7, 30, 5, log);
  Noting two(*engine, 3, 0, 3, 5, log);
  wait_for_sequences(*engine, 4);
  impl.thread->hold(false);
  for (Noting* each : {&low, &one, &high, &two}) CHECK(each->ended.get_future().get().ok());
  REQUIRE(log.size() == 20);
  CHECK(std::all_of(log.begin(), log.begin() + 5, [](int id) { return id == 2; }));
  CHECK(std::all_of(log.begin() + 15, log.end(), [](int id) { return id == 0; }));
  // Neither of the equal ones is done before the other has begun.
  const auto last = [&](int id) { return std::find(log.rbegin(), log.rend(), id).base() - 1; };
  CHECK(std::find(log.begin(), log.end(), 3) < last(1));
  CHECK(std::find(log.begin(), log.end(), 1) < last(3));
}

TEST_CASE("priority: the higher one gets the cache's pages, and no token changes") {
  const auto engine = load_limited(of(128, 64));
  GenerateOptions options = sampled(150);
  options.overflow = ContextOverflow::shift;
  const std::vector<int32_t> long_text = tokens_of(*open(*engine), text(120, 1), options);
  const std::vector<int32_t> short_text = tokens_of(*open(*engine), text(100, 2), sampled(20));
  REQUIRE(long_text.size() == 150);
  REQUIRE(short_text.size() == 20);

  const auto running = open(*engine);
  const auto coming = open(*engine);
  std::atomic<int> told{0};
  std::atomic<bool> go_on{false};
  std::vector<int32_t> found;
  auto first = std::async(std::launch::async, [&] {
    return running
        ->generate(text(120, 1), options,
                   [&](int32_t token, std::string_view) {
                     found.push_back(token);
                     // It cannot end before the other one has come.
                     if (++told == 5) {
                       while (!go_on) std::this_thread::sleep_for(1ms);
                     }
                     return true;
                   })
        .has_value();
  });
  while (told < 5) std::this_thread::sleep_for(1ms);
  GenerateOptions soon = sampled(20);
  soon.priority = 1;
  auto second =
      std::async(std::launch::async, [&] { return tokens_of(*coming, text(100, 2), soon); });
  // No room beside it: the running one gives its pages up, and goes on afterwards.
  CHECK(second.wait_for(60s) == std::future_status::ready);
  CHECK(told == 5);
  go_on = true;
  CHECK(second.get() == short_text);
  CHECK(first.get());
  CHECK(found == long_text);
}

TEST_CASE("priority: who waits below can be cancelled while the highest goes on") {
  const auto engine = load_limited(of(128, 1));
  const auto high = open(*engine);
  const auto low = open(*engine);
  std::atomic<int> told{0};
  GenerateOptions endless = sampled(-1);
  endless.overflow = ContextOverflow::shift;
  endless.priority = 3;
  auto first = std::async(std::launch::async, [&] {
    return high
        ->generate(text(100, 1), endless,
                   [&](int32_t, std::string_view) {
                     ++told;
                     return true;
                   })
        .has_value();
  });
  while (told < 5) std::this_thread::sleep_for(1ms);
  REQUIRE(low->start(text(100, 2), sampled(5)).ok());
  low->cancel();
  take_all(*low);
  CHECK(low->statistics().reason == FinishReason::cancelled);
  CHECK(engine->statistics().calls_running == 1);
  high->cancel();
  CHECK(first.get());
}

TEST_CASE("priority: many calls of any priority end, each with its own tokens") {
  const auto plain = load_limited(of(256));
  const auto engine = load_limited(of(256, 16));
  constexpr size_t kCalls = 8;
  std::vector<std::unique_ptr<Session>> sessions;
  std::vector<std::future<std::vector<int32_t>>> texts;
  for (size_t i = 0; i < kCalls; ++i) sessions.push_back(open(*engine));
  for (size_t i = 0; i < kCalls; ++i) {
    texts.push_back(std::async(std::launch::async, [&, i] {
      GenerateOptions options = sampled(60, i);
      options.priority = static_cast<int32_t>(i * 5 % 3) - 1;
      return tokens_of(*sessions[i], text(120, static_cast<int32_t>(i)), options);
    }));
  }
  for (size_t i = 0; i < kCalls; ++i) {
    const auto expected =
        tokens_of(*open(*plain), text(120, static_cast<int32_t>(i)), sampled(60, i));
    CHECK(texts[i].get() == expected);
  }
}

TEST_CASE("more calls than may wait are refused at once, and change nothing for the others") {
  const std::vector<int32_t> expected =
      tokens_of(*open(*load_limited(of(512))), kPrompt, sampled(20));
  for (const int32_t waiting : {0, 2}) {
    CAPTURE(waiting);
    LoadOptions options = of(512);
    options.parallel = 2;
    options.max_waiting = waiting;
    const auto engine = load_limited(options);
    EngineAccess::impl(*engine).thread->hold(true);
    std::vector<std::unique_ptr<Session>> taken;
    for (int i = 0; i < 2 + waiting; ++i) {
      taken.push_back(open(*engine));
      REQUIRE(taken.back()->start(kPrompt, sampled(20)).ok());
    }
    const auto refused = open(*engine);
    CHECK(refused->start(kPrompt, sampled(20)).code() == StatusCode::busy);
    CHECK(refused->evaluate(kPrompt, {}).code() == StatusCode::busy);
    const auto result = refused->generate(kPrompt, sampled(20), {});
    REQUIRE(!result.has_value());
    CHECK(result.error().code() == StatusCode::busy);
    CHECK(std::string(status_code_name(result.error().code())) == "busy");
    CHECK(refused->length() == 0);
    CHECK(engine->statistics().calls_refused == 3);
    CHECK(engine->statistics().calls_waiting == 2 + waiting);
    // What computes nothing is not refused.
    CHECK(refused->truncate(0).ok());
    CHECK(refused->fork().has_value());
    EngineAccess::impl(*engine).thread->hold(false);
    for (const auto& session : taken) {
      std::vector<int32_t> tokens;
      for (bool finished = false; !finished;) {
        const GenerateEvent event = session->next(60).value().value();
        finished = event.finished;
        if (event.token >= 0) tokens.push_back(event.token);
      }
      CHECK(tokens == expected);
    }
    CHECK(tokens_of(*refused, kPrompt, sampled(20)) == expected);
  }
  LoadOptions wrong = of(512);
  wrong.max_waiting = -2;
  CHECK(Engine::load(kModel, wrong).error().code() == StatusCode::invalid_argument);
}

TEST_CASE("a bounded session is as one of an engine with that context") {
  for (const ContextOverflow overflow : {ContextOverflow::stop, ContextOverflow::shift}) {
    const auto small = load_limited(of(100));
    LoadOptions options = of(512);
    options.drafters = {"ngram"};
    const auto engine = load_limited(options);
    GenerateOptions generate = sampled(130);
    generate.overflow = overflow;
    generate.keep = 7;
    const auto exact = open(*small);
    const std::vector<int32_t> expected = tokens_of(*exact, text(60, 1), generate);
    auto bounded = engine->open_session({100});
    REQUIRE(bounded.has_value());
    CHECK((*bounded)->room() == 100);
    CHECK(tokens_of(**bounded, text(60, 1), generate) == expected);
    CHECK((*bounded)->statistics().reason == exact->statistics().reason);
    CHECK((*bounded)->statistics().shifted_tokens == exact->statistics().shifted_tokens);
    CHECK((*bounded)->length() == exact->length());
    CHECK((*bounded)->room() == exact->room());
    const auto copy = (*bounded)->fork();
    REQUIRE(copy.has_value());
    CHECK((*copy)->room() == exact->room());
  }
}

TEST_CASE("a full session has one more token at most, and going on ends at once") {
  const auto engine = load_limited(of(512));
  const auto session = engine->open_session({100}).value();
  GenerateOptions generate = sampled(20);
  CHECK(tokens_of(*session, text(100, 1), generate).size() == 1);
  CHECK(session->statistics().reason == FinishReason::context);
  CHECK(session->length() == 101);
  CHECK(session->room() == 0);
  CHECK(tokens_of(*session, {}, generate).empty());
  CHECK(session->statistics().reason == FinishReason::context);
  CHECK(session->length() == 101);
  CHECK(session->generate(text(1, 1), generate, {}).error().code() == StatusCode::does_not_fit);
  CHECK(session->length() == 101);
  generate.overflow = ContextOverflow::shift;
  CHECK(tokens_of(*session, {}, generate).size() == 20);
}

TEST_CASE("options out of range are refused by name") {
  const auto engine = load_limited(of(512));
  const auto session = engine->open_session({100}).value();
  const auto refused = [&](const char* name, auto&& change) {
    GenerateOptions generate = sampled(1);
    change(generate);
    const auto done = session->generate(text(2, 1), generate, {});
    REQUIRE_FALSE(done.has_value());
    CHECK(done.error().code() == StatusCode::invalid_argument);
    CHECK(done.error().message().starts_with(name));
  };
  refused("max_tokens", [](GenerateOptions& o) { o.max_tokens = -2; });
  refused("logprobs", [](GenerateOptions& o) { o.logprobs = -2; });
  refused("prompt_logprobs", [](GenerateOptions& o) { o.prompt_logprobs = -2; });
  refused("draft_tokens", [](GenerateOptions& o) { o.draft_tokens = -2; });
  refused("keep", [](GenerateOptions& o) { o.keep = -1; });
  for (const int32_t token : {-5, 1 << 30}) {
    refused("logit_bias",
            [&](GenerateOptions& o) { o.sampling.logit_bias.emplace_back(token, 1.0f); });
  }
  CHECK(session->length() == 0);
}

TEST_CASE("a bounded session: what exceeds it does not fit") {
  const TempDir folder;
  const auto engine = load_limited(of(512));
  auto bounded = engine->open_session({100});
  REQUIRE(bounded.has_value());
  CHECK((*bounded)->evaluate(text(101, 1), {}).code() == StatusCode::does_not_fit);
  CHECK((*bounded)->evaluate(text(100, 1), {}).ok());
  CHECK((*bounded)->room() == 0);
  REQUIRE((*bounded)->truncate(0).ok());
  const auto other = open(*engine);
  REQUIRE(other->evaluate(text(150, 1), {}).ok());
  REQUIRE(other->save(folder.path("saved")).ok());
  CHECK((*bounded)->restore(folder.path("saved")).code() == StatusCode::does_not_fit);
  CHECK((*bounded)->length() == 0);
  REQUIRE(other->truncate(90).ok());
  REQUIRE(other->save(folder.path("saved")).ok());
  CHECK((*bounded)->restore(folder.path("saved")).ok());
  CHECK((*bounded)->room() == 10);
  // A generation fills it: the last token is held and not computed.
  const auto filled = (*bounded)->generate({}, sampled(-1), {});
  REQUIRE(filled.has_value());
  CHECK(filled->reason == FinishReason::context);
  CHECK((*bounded)->length() == 101);
  REQUIRE((*bounded)->save(folder.path("filled")).ok());
  CHECK((*bounded)->restore(folder.path("filled")).ok());
  CHECK((*bounded)->length() == 101);
  CHECK(engine->open_session({-1}).error().code() == StatusCode::invalid_argument);
  CHECK(engine->open_session({100000}).value()->room() == 512);
}
