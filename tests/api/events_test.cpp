// Generations that are begun, and whose tokens are taken one by one.
#include <array>
#include <atomic>
#include <future>
#include <latch>
#include <limits>
#include <thread>

#include "engine/sample/grammar/gbnf.h"
#include "engine/session/engine_impl.h"
#include "engine/session/generate_run.h"
#include "tests/api/model.h"

using namespace infer;
using namespace infer::test;
using namespace std::chrono_literals;

namespace {

constexpr double kForever = std::numeric_limits<double>::infinity();

struct Taken {
  std::vector<int32_t> tokens;
  std::string text;
  GenerateEvent last;
};

/// Takes all events.
Taken take_all(Session& session) {
  Taken taken;
  for (;;) {
    auto event = session.next(kForever);
    REQUIRE_MESSAGE(event.has_value(), event.error().message());
    REQUIRE(event->has_value());
    if ((*event)->finished) {
      taken.last = *std::move(*event);
      return taken;
    }
    if ((*event)->token >= 0) taken.tokens.push_back((*event)->token);
    taken.text += (*event)->text;
  }
}

Taken started(Session& session, const std::vector<int32_t>& prompt,
              const GenerateOptions& options) {
  const Status status = session.start(prompt, options);
  REQUIRE_MESSAGE(status.ok(), status.message());
  return take_all(session);
}

}  // namespace

TEST_CASE("what is started gives the tokens, text and result of generate()") {
  const auto engine = load();
  for (const int32_t count : {0, 1, 7, 150}) {
    CAPTURE(count);
    std::vector<int32_t> tokens;
    std::string text;
    std::vector<std::vector<std::pair<int32_t, float>>> log_probabilities;
    GenerateOptions options = sampled(count);
    options.logprobs = 3;
    options.on_logprobs = [&](auto each) {
      log_probabilities.emplace_back(each.begin(), each.end());
      return true;
    };
    const auto plain = open(*engine);
    const auto result = plain->generate(kPrompt, options, [&](int32_t token, auto piece) {
      if (token >= 0) tokens.push_back(token);
      text += piece;
      return true;
    });
    REQUIRE(result.has_value());
    const auto session = open(*engine);
    options.on_logprobs = {};
    REQUIRE(session->start(kPrompt, options).ok());
    Taken taken;
    size_t told = 0;
    for (;;) {
      const auto event = session->next(kForever).value().value();
      if (event.finished) {
        taken.last = event;
        break;
      }
      taken.text += event.text;
      if (event.token < 0) continue;
      taken.tokens.push_back(event.token);
      CHECK(session->length() == static_cast<int64_t>(kPrompt.size() + taken.tokens.size()));
      CHECK(session->statistics().generated_tokens == static_cast<int64_t>(taken.tokens.size()));
      REQUIRE(told < log_probabilities.size());
      CHECK(event.log_probabilities == log_probabilities[told++]);
    }
    CHECK(taken.tokens == tokens);
    CHECK(taken.text == text);
    CHECK(taken.last.status.ok());
    CHECK(taken.last.result.reason == result->reason);
    CHECK(taken.last.result.generated_tokens == count);
    CHECK(taken.last.result.prompt_tokens == result->prompt_tokens);
    CHECK(taken.last.result.seed == result->seed);
    CHECK(session->length() == plain->length());
    // Both go on alike.
    CHECK(started(*session, {}, sampled(5)).tokens == tokens_of(*plain, {}, sampled(5)));
  }
}

TEST_CASE("a session that generates refuses all else, and is as it was when that has been taken") {
  const auto engine = load();
  const TempDir folder;
  const auto session = open(*engine);
  const auto refused = [](const Status& status) {
    CHECK(status.code() == StatusCode::invalid_argument);
  };
  refused(session->next(0).error());
  REQUIRE(session->start(kPrompt, sampled(40)).ok());
  refused(session->start(kPrompt, sampled(1)));
  refused(session->generate(kPrompt, sampled(1), {}).error());
  refused(session->evaluate(kPrompt, {}));
  refused(session->truncate(0));
  refused(session->save(folder.path("saved")));
  refused(session->restore(folder.path("saved")));
  CHECK(take_all(*session).tokens == tokens_of(*open(*engine), kPrompt, sampled(40)));
  refused(session->next(0).error());
  CHECK(session->truncate(2).ok());
}

TEST_CASE(
    "a reader that takes nothing delays its own session alone, by a bounded number of tokens") {
  const auto engine = load(1, 2048);
  const std::vector<int32_t> expected = tokens_of(*open(*engine), kPrompt, sampled(200));
  const auto slow = open(*engine);
  Engine::Impl& impl = EngineAccess::impl(*engine);
  REQUIRE(slow->start(kPrompt, sampled(200)).ok());
  for (int i = 0; i < 3; ++i) {
    CHECK(tokens_of(*open(*engine), kPrompt, sampled(200)) == expected);
  }
  // What was computed for it waits, and no more.
  int64_t computed = 0;
  const auto id = static_cast<KvCache::SequenceId>(slow->number());
  impl.thread->call([&] { computed = impl.cache->length(id); });
  CHECK(computed >= static_cast<int64_t>(kPrompt.size()));
  CHECK(computed <= static_cast<int64_t>(kPrompt.size() + GenerateRun::kMostWaiting));
  CHECK(take_all(*slow).tokens == expected);
}

TEST_CASE("a reader that takes nothing keeps no pages that others need, and loses no token") {
  const auto engine = load(1, 192);  // three pages
  const std::vector<int32_t> slow_text = text(70, 1);
  const std::vector<int32_t> expected = tokens_of(*open(*engine), slow_text, sampled(100));
  const std::vector<int32_t> others = tokens_of(*open(*engine), text(120, 2), sampled(50));
  const auto slow = open(*engine);
  REQUIRE(slow->start(slow_text, sampled(100)).ok());
  while (engine->statistics().generated_tokens < 150 + int64_t{GenerateRun::kMostWaiting}) {
    std::this_thread::yield();
  }
  // Each needs all three pages, of which the other one has two.
  CHECK(tokens_of(*open(*engine), text(120, 2), sampled(50)) == others);
  std::vector<int32_t> taken;
  for (int i = 0; i < 40; ++i) taken.push_back(slow->next(60).value().value().token);
  CHECK(tokens_of(*open(*engine), text(120, 2), sampled(50)) == others);
  const std::vector<int32_t> rest = take_all(*slow).tokens;
  taken.insert(taken.end(), rest.begin(), rest.end());
  CHECK(taken == expected);
}

TEST_CASE("a reader that takes nothing keeps its pages from calls of lower priority") {
  const auto engine = load(1, 192);
  const auto slow = open(*engine);
  GenerateOptions first = sampled(100);
  first.priority = 1;
  REQUIRE(slow->start(text(70, 1), first).ok());
  while (engine->statistics().generated_tokens < int64_t{GenerateRun::kMostWaiting}) {
    std::this_thread::yield();
  }
  auto other = std::async(std::launch::async,
                          [&] { return tokens_of(*open(*engine), text(120, 2), sampled(50)); });
  CHECK(other.wait_for(4 * kLag) == std::future_status::timeout);
  CHECK(take_all(*slow).tokens.size() == 100);
  CHECK(other.get().size() == 50);
}

TEST_CASE("rows of logits that nobody takes delay their own session alone") {
  const auto engine = load(1, 2048);
  const auto slow = open(*engine);
  std::latch others_done{1};
  std::atomic<int> rows{0};
  auto evaluation = std::async(std::launch::async, [&] {
    return slow->evaluate(text(100, 1), [&](int64_t, std::span<const float>) {
      if (++rows == 1) others_done.wait();
      return true;
    });
  });
  while (rows == 0) std::this_thread::yield();
  CHECK(tokens_of(*open(*engine), kPrompt, sampled(100)).size() == 100);
  others_done.count_down();
  CHECK(evaluation.get().ok());
  CHECK(rows == 100);
}

TEST_CASE("an event loop is woken, and waiting for an event ends in time") {
  const auto engine = load();
  const auto session = open(*engine);
  std::atomic<int> woken{0};
  EngineAccess::impl(*engine).thread->hold(true);
  REQUIRE(session->start(kPrompt, sampled(20), [&] { ++woken; }).ok());
  CHECK(!session->next(0).value().has_value());
  CHECK(!session->next(0.01).value().has_value());
  CHECK(!session->next(-1).value().has_value());
  CHECK(woken == 0);
  EngineAccess::impl(*engine).thread->hold(false);
  const int limit = 1000;
  int polled = 0;
  size_t tokens = 0;
  for (bool finished = false; !finished && polled < limit;) {
    const int before = woken;
    for (;;) {
      const auto event = session->next(0).value();
      if (!event) break;
      finished = event->finished;
      if (finished) break;
      ++tokens;
    }
    if (finished) break;
    ++polled;
    while (woken == before) std::this_thread::yield();  // whatever comes now wakes
  }
  CHECK(tokens == 20);
  CHECK(polled < limit);
}

TEST_CASE("the time until the first step is told") {
  const auto engine = load();
  const auto session = open(*engine);
  EngineAccess::impl(*engine).thread->hold(true);
  REQUIRE(session->start(kPrompt, sampled(3)).ok());
  const auto begun = std::chrono::steady_clock::now();
  std::this_thread::sleep_for(30ms);
  const std::chrono::duration<double> held = std::chrono::steady_clock::now() - begun;
  EngineAccess::impl(*engine).thread->hold(false);
  const GenerateResult result = take_all(*session).last.result;
  CHECK(result.queue_seconds >= held.count());
  CHECK(result.queue_seconds < result.prompt_seconds);
  CHECK(result.prompt_seconds < result.first_token_seconds);
}

TEST_CASE("a cancel and the end of a session end what was started") {
  const auto engine = load();
  const std::vector<int32_t> expected = tokens_of(*open(*engine), kPrompt, sampled(20));
  GenerateOptions endless = sampled(-1);
  endless.overflow = ContextOverflow::shift;
  {
    const auto session = open(*engine);
    REQUIRE(session->start(kPrompt, endless).ok());
    const auto first = session->next(kForever).value().value();
    CHECK(first.token == expected[0]);
    session->cancel();
    const Taken rest = take_all(*session);
    CHECK(rest.last.status.ok());
    CHECK(rest.last.result.reason == FinishReason::cancelled);
    CHECK(rest.last.result.generated_tokens == static_cast<int64_t>(1 + rest.tokens.size()));
    CHECK(session->length() ==
          static_cast<int64_t>(kPrompt.size()) + rest.last.result.generated_tokens);
  }
  for (int round = 0; round < 20; ++round) {
    const auto session = open(*engine);
    REQUIRE(session->start(kPrompt, endless).ok());
    for (int i = 0; i < round; ++i) CHECK(session->next(kForever).value().has_value());
  }
  CHECK(tokens_of(*open(*engine), kPrompt, sampled(20)) == expected);
}

TEST_CASE("a callback that ends the generation leaves the session as it was with that token") {
  const auto engine = load(1, 128);
  for (const ContextOverflow overflow : {ContextOverflow::stop, ContextOverflow::shift}) {
#ifdef INFER_SANITIZED
    for (const int64_t stop : {2, 119, 121, 150}) {
#else
    for (const int64_t stop : {1, 2, 20, 100, 119, 120, 121, 124, 125, 126, 150}) {
#endif
      if (overflow == ContextOverflow::stop && stop > 119) continue;
      CAPTURE(stop);
      GenerateOptions options = sampled(400);
      options.overflow = overflow;
      options.keep = 3;
      int64_t told = 0;
      std::vector<int32_t> tokens;
      const auto ended = open(*engine);
      const auto result = ended->generate(kPrompt, options, [&](int32_t token, auto) {
        tokens.push_back(token);
        if (++told < stop) return true;
        // Meanwhile the engine goes on as far as it may: it must not shift the context yet.
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        return false;
      });
      REQUIRE(result.has_value());
      CHECK(result->reason == FinishReason::cancelled);
      CHECK(result->generated_tokens == stop);
      CHECK(told == stop);
      const auto exact = open(*engine);
      options.max_tokens = static_cast<int32_t>(stop);
      CHECK(tokens_of(*exact, kPrompt, options) == tokens);
      CHECK(ended->length() == exact->length());
      CHECK(result->shifted_tokens == exact->statistics().shifted_tokens);
      options.max_tokens = 5;
      options.overflow = ContextOverflow::shift;
      CHECK(tokens_of(*ended, {}, options) == tokens_of(*exact, {}, options));
    }
  }
}

TEST_CASE("a callback may use the engine and other sessions; one that throws ends its own call") {
  const auto engine = load();
  const auto session = open(*engine);
  std::vector<int32_t> inner;
  const auto result = session->generate(kPrompt, sampled(3), [&](int32_t, auto) {
    inner = tokens_of(*open(*engine), kPrompt, sampled(4));
    return true;
  });
  REQUIRE(result.has_value());
  CHECK(inner == tokens_of(*open(*engine), kPrompt, sampled(4)));
  const int64_t length = session->length();
  const auto failed = session->generate(
      {}, sampled(50), [&](int32_t, auto) -> bool { throw std::runtime_error("no more"); });
  REQUIRE(!failed.has_value());
  CHECK(failed.error().message() == "the callback threw: no more");
  CHECK(session->length() == length);
}

TEST_CASE("what on_event throws ends its own generation and no other") {
  const auto engine = load();
  const std::vector<int32_t> expected = tokens_of(*open(*engine), kPrompt, sampled(60));
  // Throwing at the first call, later, and at the end, of a generation that ends by itself.
  for (const int good : {0, 1, 5, 1000}) {
    CAPTURE(good);
    // How often it is called depends on how fast the events are taken, but the first call always
    // comes.
    std::atomic<int> calls{0};
    std::array<std::atomic<bool>, 2> threw{};
    const auto other = open(*engine);
    REQUIRE(other->start(kPrompt, sampled(60)).ok());
    std::vector<std::unique_ptr<Session>> thrown;
    for (std::atomic<bool>& own : threw) {
      thrown.push_back(open(*engine));
      const auto event = [&, good] {
        if (++calls <= good) return;
        own = true;
        throw std::runtime_error("no more");
      };
      REQUIRE(thrown.back()->start(kPrompt, sampled(60), event).ok());
    }
    for (size_t i = 0; i < thrown.size(); ++i) {
      const Status status = take_all(*thrown[i]).last.status;
      if (good == 0) CHECK(threw[i]);
      if (good == 1000) CHECK(!threw[i]);
      CHECK(status.ok() == !threw[i]);
      if (status.ok()) continue;
      CHECK(status.code() == StatusCode::invalid_argument);
      CHECK(status.message() == "the callback threw: no more");
      CHECK(thrown[i]->length() == 0);
    }
    CHECK(take_all(*other).tokens == expected);
  }
  GenerateOptions refused = sampled(5);
  refused.grammar = "root ::= root";
  const auto session = open(*engine);
  REQUIRE(session->start(kPrompt, refused, [] { throw std::bad_alloc(); }).ok());
  CHECK(take_all(*session).last.status.code() == StatusCode::invalid_argument);
}

TEST_CASE("a generation that its callback ends was ended by no stop string") {
  const auto engine = load();
  const auto session = open(*engine);
  std::vector<std::string> pieces;
  REQUIRE(session
              ->generate(kPrompt, sampled(12),
                         [&](int32_t, auto piece) {
                           pieces.emplace_back(piece);
                           return true;
                         })
              .has_value());
  std::string last;
  for (size_t i = 6; i < pieces.size(); ++i) last += pieces[i];
  REQUIRE_FALSE(last.empty());
  GenerateOptions options = sampled(12);
  options.stop = {last};
  int taken = 0;
  const auto result = open(*engine)->generate(kPrompt, options, [&](int32_t, auto) {
    std::this_thread::sleep_for(50ms);  // the engine runs ahead
    return ++taken < 3;
  });
  REQUIRE(result.has_value());
  CHECK(result->reason == FinishReason::cancelled);
  CHECK(result->stop_string.empty());
}

TEST_CASE(
    "a grammar that fails is the last event's status; one that is compiled can be cancelled") {
  const auto engine = load();
  const auto session = open(*engine);
  GenerateOptions options = sampled(5);
  options.grammar = "root ::= nothing";
  const Taken failed = started(*session, kPrompt, options);
  CHECK(failed.last.status.code() == StatusCode::invalid_argument);
  CHECK(session->length() == 0);

  std::latch may_end{1};
  EngineAccess::impl(*engine).grammars = std::make_unique<Grammars>(
      EngineAccess::impl(*engine).tokenizer, Grammars::kKeptBytes,
      [&](bool, const std::string& text) -> Result<std::shared_ptr<const CompiledGrammar>> {
        may_end.wait();
        return compile_gbnf(text);
      });
  options.grammar = "root ::= [a-z ]+";
  REQUIRE(session->start(kPrompt, options).ok());
  CHECK(!session->next(0.03).value().has_value());
  session->cancel();
  const Taken cancelled = take_all(*session);
  CHECK(cancelled.last.status.ok());
  CHECK(cancelled.last.result.reason == FinishReason::cancelled);
  CHECK(tokens_of(*session, kPrompt, sampled(3)).size() == 3);
  // Also for who only asks and never waits.
  REQUIRE(session->truncate(0).ok());
  REQUIRE(session->start(kPrompt, options).ok());
  CHECK(!session->next(0).value().has_value());
  session->cancel();
  const auto last = session->next(0).value();
  REQUIRE(last.has_value());
  CHECK(last->finished);
  may_end.count_down();
  CHECK(session->truncate(0).ok());
  CHECK(!started(*session, kPrompt, options).tokens.empty());
}
