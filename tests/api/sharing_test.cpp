// The cache as sessions see it: sharing, waiting, giving up and shifting change no token.
#include <latch>
#include <thread>

#include "tests/api/model.h"

using namespace infer;
using namespace infer::test;

namespace {

std::unique_ptr<Engine> load_sharing(const std::string& path, int64_t context, bool reuse,
                                     int32_t parallel = 4, int32_t rows = 64) {
  LoadOptions options;
  options.threads = 2;
  options.context = context;
  options.prefix_reuse = reuse;
  options.parallel = parallel;
  options.batch_rows = rows;
  Result<std::unique_ptr<Engine>> engine = Engine::load(path, options);
  REQUIRE_MESSAGE(engine.has_value(), engine.error().message());
  return *std::move(engine);
}

}  // namespace

TEST_CASE("what an earlier session computed is taken over, and the tokens are the same") {
  for (const std::string& path : {kModel, kWindowModel, kRecurrentModel}) {
    CAPTURE(path);
    const auto plain = load_sharing(path, 1024, false);
    const auto engine = load_sharing(path, 1024, true);
    std::vector<int32_t> prompt = text(300, 1);
    const std::vector<int32_t> expected = tokens_of(*open(*plain), prompt, sampled(40));
    REQUIRE(expected.size() == 40);
    CHECK(tokens_of(*open(*engine), prompt, sampled(40)) == expected);
    const auto second = open(*engine);
    CHECK(tokens_of(*second, prompt, sampled(40)) == expected);
    CHECK(second->statistics().reused_tokens == (path == kRecurrentModel ? 256 : 299));
    prompt[200] = 2;  // alike for three pages and a part of the fourth
    const auto third = open(*engine);
    CHECK(tokens_of(*third, prompt, sampled(40)) == tokens_of(*open(*plain), prompt, sampled(40)));
    // Of states there is the one after the last full page of a prompt.
    CHECK(third->statistics().reused_tokens == (path == kRecurrentModel ? 0 : 200));
  }
}

TEST_CASE("prompts that arrive together compute once what they begin with") {
  constexpr int kSessions = 6;
  constexpr int kShared = 600;
  for (const auto& [path, own_tokens, rows] :
       {std::tuple(kModel, 10, 64), std::tuple(kWindowModel, 100, 64),
        std::tuple(kRecurrentModel, 10, 64), std::tuple(kRecurrentModel, 100, 64),
        std::tuple(kModel, 100, 512), std::tuple(kRecurrentModel, 10, 512),
        std::tuple(kRecurrentModel, 100, 512), std::tuple(kRecurrentModel, 300, 1024)}) {
    CAPTURE(path);
    CAPTURE(own_tokens);
    CAPTURE(rows);
    const auto plain = load_sharing(path, 1024, false);
    const auto engine = load_sharing(path, 1024, true, kSessions, rows);
    std::vector<std::vector<int32_t>> prompts;
    std::vector<std::unique_ptr<Session>> sessions;
    for (int i = 0; i < kSessions; ++i) {
      prompts.push_back(text(kShared, 1));
      const std::vector<int32_t> own = text(own_tokens, 10 + i);
      prompts.back().insert(prompts.back().end(), own.begin(), own.end());
      sessions.push_back(open(*engine));
    }
    // No step is computed before all have arrived.
    std::latch held{1}, arrived{1};
    std::jthread holds([&] {
      EngineAccess::impl(*engine).thread->call([&] {
        held.count_down();
        arrived.wait();
      });
    });
    held.wait();
    for (size_t i = 0; i < kSessions; ++i)
      REQUIRE(sessions[i]->start(prompts[i], sampled(20)).ok());
    arrived.count_down();
    int64_t reused = 0;
    for (size_t i = 0; i < kSessions; ++i) {
      CAPTURE(i);
      CHECK(started_tokens_of(*sessions[i]) == tokens_of(*open(*plain), prompts[i], sampled(20)));
      reused += sessions[i]->statistics().reused_tokens;
    }
    // One of them computes the full pages, and each what comes after these. Of the page in which
    // they part they share the beginning if it is full and has no states.
    const bool parts = path != kRecurrentModel && own_tokens >= 64;
    const int64_t pages = parts ? kShared : kShared / 64 * 64;
    const int64_t rest = kShared + own_tokens - pages;
    const int64_t computed = engine->statistics().prompt_tokens;
    CHECK(computed + reused == kSessions * (kShared + own_tokens));
    CHECK(computed == pages + kSessions * rest);
    CHECK(engine->statistics().prefix_tokens_found == reused);
  }
}

TEST_CASE("where texts go on differently, what comes before is computed at most twice") {
  for (const std::string& path : {kModel, kWindowModel, kRecurrentModel}) {
    CAPTURE(path);
    const auto plain = load_sharing(path, 1024, false);
    const auto engine = load_sharing(path, 1024, true);
    for (int i = 0; i < 5; ++i) {
      CAPTURE(i);
      std::vector<int32_t> prompt = text(600, 1);
      const std::vector<int32_t> own = text(100, 10 + i);
      prompt.insert(prompt.end(), own.begin(), own.end());
      const auto session = open(*engine);
      CHECK(tokens_of(*session, prompt, sampled(20)) ==
            tokens_of(*open(*plain), prompt, sampled(20)));
      // Of states there is a copy at the first place where two texts differed.
      const int known = path == kRecurrentModel ? 2 : 1;
      const int64_t alike = path == kRecurrentModel ? 576 : 600;
      CHECK(session->statistics().reused_tokens == (i < known ? 0 : alike));
    }
  }
}

TEST_CASE("every logit that is asked for is given, whatever the cache knows") {
  const auto engine = load_sharing(kModel, 1024, true);
  const std::vector<int32_t> prompt = text(200, 1);
  const auto logits = [&](Session& session) {
    std::vector<float> all;
    REQUIRE(session
                .evaluate(prompt,
                          [&](int64_t position, std::span<const float> x) {
                            CHECK(position == static_cast<int64_t>(all.size() / x.size()));
                            all.insert(all.end(), x.begin(), x.end());
                            return true;
                          })
                .ok());
    return all;
  };
  const std::vector<float> first = logits(*open(*engine));
  CHECK(first.size() == prompt.size() * static_cast<size_t>(engine->vocabulary_size()));
  CHECK(logits(*open(*engine)) == first);
}

TEST_CASE("more sessions than the cache holds: they take turns, and the tokens are the same") {
  for (const std::string& path : {kModel, kWindowModel, kRecurrentModel}) {
    CAPTURE(path);
    constexpr int kSessions = 6;
    const auto plain = load_sharing(path, 512, false);
    const auto engine = load_sharing(path, 512, true, 2);
    std::vector<std::vector<int32_t>> expected, found(kSessions);
    std::vector<std::unique_ptr<Session>> sessions;
    for (int i = 0; i < kSessions; ++i) {
      expected.push_back(tokens_of(*open(*plain), text(150 + i, i), sampled(120)));
      REQUIRE(expected.back().size() == 120);
      sessions.push_back(open(*engine));
    }
    for (int round = 0; round < 2; ++round) {
      std::vector<std::thread> threads;
      for (int i = 0; i < kSessions; ++i) {
        threads.emplace_back([&, i] {
          Session& session = *sessions[static_cast<size_t>(i)];
          found[static_cast<size_t>(i)] = tokens_of(session, text(150 + i, i), sampled(120));
        });
      }
      for (std::thread& thread : threads) thread.join();
      for (size_t i = 0; i < kSessions; ++i) {
        CAPTURE(i);
        CHECK(found[i] == expected[i]);
        REQUIRE(sessions[i]->truncate(0).ok());
      }
    }
  }
}

TEST_CASE("the cache grows and shrinks under running sessions, and the tokens are the same") {
  for (const std::string& path : {kModel, kWindowModel, kRecurrentModel}) {
    CAPTURE(path);
    constexpr int kSessions = 5;
    const auto plain = load_sharing(path, 512, false);
    const auto engine = load_sharing(path, 512, true, kSessions);
    const int64_t planned = engine->memory().kv;
    std::vector<std::vector<int32_t>> expected, found(kSessions);
    for (int i = 0; i < kSessions; ++i) {
      expected.push_back(tokens_of(*open(*plain), text(150 + i, i), sampled(200)));
    }
    std::vector<std::thread> threads;
    for (int i = 0; i < kSessions; ++i) {
      threads.emplace_back([&, i] {
        found[static_cast<size_t>(i)] = tokens_of(*open(*engine), text(150 + i, i), sampled(200));
      });
    }
    for (int round = 0; round < 20; ++round) {
      const int64_t bytes = round % 2 == 0 ? planned * (7 + round % 3) / 9 : planned * 3;
      const Status status = engine->resize_cache(bytes);
      REQUIRE_MESSAGE(status.ok(), status.message());
      CHECK(engine->memory().kv <= bytes);
      std::this_thread::sleep_for(std::chrono::milliseconds(3));
    }
    for (std::thread& thread : threads) thread.join();
    for (size_t i = 0; i < kSessions; ++i) {
      CAPTURE(i);
      CHECK(found[i] == expected[i]);
    }
    CHECK(engine->resize_cache(INT64_MAX / 2).code() == StatusCode::does_not_fit);
    CHECK(engine->resize_cache(-1).code() == StatusCode::invalid_argument);
    CHECK(engine->resize_cache(0).ok());
    CHECK(engine->memory().kv == 0);
    const auto starved = open(*engine)->generate(text(100, 1), sampled(5), {});
    REQUIRE(!starved.has_value());
    CHECK(starved.error().code() == StatusCode::does_not_fit);
    REQUIRE(engine->resize_cache(planned).ok());
    CHECK(tokens_of(*open(*engine), text(150, 0), sampled(200)) == expected[0]);
  }
}

TEST_CASE("pages that left memory come back from the folder") {
  const TempDir folder;
  for (const std::string& path : {kModel, kWindowModel, kRecurrentModel}) {
    CAPTURE(path);
    LoadOptions options;
    options.threads = 2;
    options.context = 256;
    options.cache_folder = folder.path("");
    const auto engine = Engine::load(path, options);
    REQUIRE(engine.has_value());
    std::vector<std::vector<int32_t>> expected;
    for (int round = 0; round < 2; ++round) {
      for (int i = 0; i < 4; ++i) {
        const auto session = open(**engine);
        const std::vector<int32_t> tokens = tokens_of(*session, text(200, i), sampled(40));
        REQUIRE(tokens.size() == 40);
        if (round == 0) expected.push_back(tokens);
        CHECK(tokens == expected[static_cast<size_t>(i)]);
        CHECK(session->statistics().reused_tokens == (round == 0 ? 0 : 192));
      }
    }
    options.cache_folder = folder.path("none");
    const auto refused = Engine::load(path, options);
    REQUIRE(!refused.has_value());
    CHECK(refused.error().code() == StatusCode::io);
  }
}

TEST_CASE("a cache of chosen size grows for more sessions than it holds") {
  LoadOptions options;
  options.threads = 2;
  const auto engine = Engine::load(kModel, options);
  REQUIRE(engine.has_value());
  const int64_t planned = (*engine)->memory().kv;
  const int64_t context = (*engine)->memory().context;
  std::vector<std::unique_ptr<Session>> sessions;
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) sessions.push_back(open(**engine));
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      tokens_of(*sessions[static_cast<size_t>(i)], text(context - 100, i), sampled(90));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& session : sessions) CHECK(session->length() == context - 10);
  CHECK((*engine)->memory().kv > planned);
}

TEST_CASE("a session whose pages others took goes on as if nothing had happened") {
  const auto engine = load_sharing(kModel, 256, true);
  const std::vector<int32_t> whole = tokens_of(*open(*engine), kPrompt, sampled(100));
  const auto session = open(*engine);
  std::vector<int32_t> parts = tokens_of(*session, kPrompt, sampled(60));
  CHECK(tokens_of(*open(*engine), text(250, 3), sampled(5)).size() == 5);
  for (const int32_t token : tokens_of(*session, {}, sampled(40))) parts.push_back(token);
  CHECK(parts == whole);
}

TEST_CASE("a full context shifts on request: exactly as from the shorter text") {
  for (const std::string& path : {kModel, kWindowModel, kRecurrentModel}) {
    CAPTURE(path);
    const auto engine = load_sharing(path, 128, true);
    GenerateOptions options = sampled(150);
    options.sampling.temperature = 0.0f;
    options.overflow = ContextOverflow::shift;
    options.keep = 10;
    const std::vector<int32_t> prompt = text(100, 2);
    const auto session = open(*engine);
    const std::vector<int32_t> found = tokens_of(*session, prompt, options);
    REQUIRE(found.size() == 150);
    CHECK(session->statistics().shifted_tokens > 100);
    CHECK(session->length() <= 128);
    CHECK(session->length() == 250 - session->statistics().shifted_tokens);

    // The same by hand: whenever the text is longer than the context, the middle goes.
    std::vector<int32_t> held = prompt;
    std::vector<int32_t> expected;
    while (expected.size() < 150) {
      if (held.size() > 128) {
        std::vector<int32_t> kept(held.begin(), held.begin() + 10);
        kept.insert(kept.end(), held.end() - (128 - 10) / 2, held.end());
        held = std::move(kept);
      }
      options.overflow = ContextOverflow::stop;
      options.max_tokens = 1;
      const std::vector<int32_t> next = tokens_of(*open(*engine), held, options);
      REQUIRE(next.size() == 1);
      held.push_back(next[0]);
      expected.push_back(next[0]);
    }
    CHECK(found == expected);
  }
}

TEST_CASE("a prompt longer than the context: refused, or cut in the middle") {
  const auto engine = load_sharing(kModel, 128, true);
  const auto session = open(*engine);
  GenerateOptions options = sampled(5);
  const std::vector<int32_t> prompt = text(400, 2);
  const auto refused = session->generate(prompt, options, {});
  REQUIRE(!refused.has_value());
  CHECK(refused.error().code() == StatusCode::does_not_fit);
  CHECK(session->length() == 0);
  options.overflow = ContextOverflow::shift;
  options.keep = 1000;  // more than there is room for: as much as leaves some
  CHECK(tokens_of(*session, prompt, options).size() == 5);
  options.keep = -1;
  const auto bad = session->generate(prompt, options, {});
  REQUIRE(!bad.has_value());
  CHECK(bad.error().code() == StatusCode::invalid_argument);
}

TEST_CASE("an emptied session draws like a fresh one") {
  const auto engine = load_sharing(kModel, 128, true);
  const auto used = open(*engine);
  GenerateOptions options = sampled(100);
  options.overflow = ContextOverflow::shift;
  CHECK(tokens_of(*used, text(100, 1), options).size() == 100);
  REQUIRE(used->truncate(0).ok());
  CHECK(tokens_of(*used, kPrompt, sampled(20)) == tokens_of(*open(*engine), kPrompt, sampled(20)));
}

TEST_CASE("a prompt finds its room although an idle session shares the page it goes on in") {
  const auto engine = load_sharing(kModel, 512, true);
  const auto idle = open(*engine);
  const auto session = open(*engine);
  GenerateOptions prompt_alone = sampled(0);
  REQUIRE(idle->generate(text(448, 1), prompt_alone, {}).has_value());
  REQUIRE(session->generate(text(449, 1), prompt_alone, {}).has_value());
  REQUIRE(session->truncate(400).ok());
  const auto result = session->generate(text(60, 2), prompt_alone, {});  // 460 of 512
  CHECK_MESSAGE(result.has_value(), result.error().message());
}
