// Sessions that begin as another one: what they generate, and what they share with it.
#include <future>

#include "tests/api/model.h"

using namespace infer;
using namespace infer::test;

namespace {

std::unique_ptr<Engine> load_forking(const std::string& path, int64_t context, bool reuse,
                                     const std::string& cache_type = "f16") {
  LoadOptions options;
  options.threads = 1;
  options.context = context;
  options.prefix_reuse = reuse;
  options.cache_type_k = options.cache_type_v = cache_type;
  options.batch_rows = 64;
  Result<std::unique_ptr<Engine>> engine = Engine::load(path, options);
  REQUIRE_MESSAGE(engine.has_value(), engine.error().message());
  return *std::move(engine);
}

std::unique_ptr<Session> fork(Session& session) {
  Result<std::unique_ptr<Session>> made = session.fork();
  REQUIRE_MESSAGE(made.has_value(), made.error().message());
  return *std::move(made);
}

std::vector<int32_t> joined(std::vector<int32_t> first, const std::vector<int32_t>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

/// Pages that sessions hold, of all kinds.
int64_t held_pages(Engine& engine) {
  Engine::Impl& impl = EngineAccess::impl(engine);
  int64_t held = 0;
  impl.thread->call([&] {
    for (size_t k = 0; k < impl.cache->kinds(); ++k) held += impl.cache->held(k);
  });
  return held;
}

struct Cache {
  std::string model;
  bool reuse;
  const char* type;
};

const Cache kCaches[] = {{kModel, true, "f16"},          {kModel, false, "q8_0"},
                         {kModel, true, "q4_0"},         {kWindowModel, true, "f16"},
                         {kWindowModel, false, "f32"},   {kRecurrentModel, true, "f16"},
                         {kRecurrentModel, false, "f32"}};

}  // namespace

TEST_CASE("fork: both go on as a session that was given the tokens") {
  for (const Cache& cache : kCaches) {
    CAPTURE(cache.model);
    CAPTURE(cache.type);
    const auto engine = load_forking(cache.model, 1024, cache.reuse, cache.type);
    const auto plain = load_forking(cache.model, 1024, false, cache.type);
    const auto given = [&](const std::vector<int32_t>& tokens, uint64_t seed) {
      return tokens_of(*open(*plain), tokens, sampled(80, seed));
    };
    for (const int64_t length : {10, 64, 150, 300}) {
      CAPTURE(length);
      const std::vector<int32_t> prompt = text(length, 1);
      const auto first = open(*engine);
      const std::vector<int32_t> held = joined(prompt, tokens_of(*first, prompt, sampled(30)));
      const int64_t pages = held_pages(*engine);
      const auto second = fork(*first);
      const auto third = fork(*second);
      CHECK(held_pages(*engine) == pages);  // all of them are shared
      CHECK(second->length() == static_cast<int64_t>(held.size()));
      CHECK(second->statistics().seed == 7);
      CHECK(second->statistics().generated_tokens == 0);
      // One after another, the copy first; then what each holds is its own.
      CHECK(tokens_of(*second, {}, sampled(80, 9)) == given(held, 9));
      const std::vector<int32_t> more = joined(held, text(5, 3));
      CHECK(tokens_of(*first, text(5, 3), sampled(80, 11)) == given(more, 11));
      CHECK(second->length() == static_cast<int64_t>(held.size()) + 80);
      CHECK(third->length() == static_cast<int64_t>(held.size()));
      CHECK(tokens_of(*third, {}, sampled(80, 12)) == given(held, 12));
    }
  }
}

TEST_CASE("fork: the logits after it are those of a session that was given the tokens") {
  for (const Cache& cache : kCaches) {
    CAPTURE(cache.model);
    const auto engine = load_forking(cache.model, 512, cache.reuse, cache.type);
    const auto logits = [&](Session& session, const std::vector<int32_t>& tokens) {
      std::vector<float> all;
      const Status status = session.evaluate(tokens, [&](int64_t, std::span<const float> x) {
        all.insert(all.end(), x.begin(), x.end());
        return true;
      });
      CHECK_MESSAGE(status.ok(), status.message());
      return all;
    };
    const auto one = open(*engine);
    REQUIRE(one->evaluate(text(100, 1), {}).ok());
    const auto two = fork(*one);
    const std::vector<float> left = logits(*one, text(40, 2));
    const std::vector<float> right = logits(*two, text(50, 3));
    const auto other = load_forking(cache.model, 512, false, cache.type);
    const auto plain = open(*other);
    REQUIRE(plain->evaluate(text(100, 1), {}).ok());
    CHECK(left == logits(*plain, text(40, 2)));
    REQUIRE(plain->truncate(100).ok());
    CHECK(right == logits(*plain, text(50, 3)));
  }
}

TEST_CASE("fork: truncated, both generate what they would have") {
  for (const Cache& cache : kCaches) {
    CAPTURE(cache.model);
    const auto engine = load_forking(cache.model, 1024, cache.reuse, cache.type);
    const auto plain = load_forking(cache.model, 1024, false, cache.type);
    const std::vector<int32_t> prompt = text(200, 1);
    const auto first = open(*engine);
    REQUIRE(first->evaluate(prompt, {}).ok());
    const auto second = fork(*first);
    for (const int64_t length : {170, 128, 60, 1}) {
      CAPTURE(length);
      const std::vector<int32_t> kept(prompt.begin(), prompt.begin() + length);
      REQUIRE(second->truncate(length).ok());
      CHECK(tokens_of(*second, {}, sampled(50, 3)) ==
            tokens_of(*open(*plain), kept, sampled(50, 3)));
      REQUIRE(second->truncate(length).ok());
      CHECK(first->length() == 200);
    }
    REQUIRE(first->truncate(140).ok());
    const std::vector<int32_t> kept(prompt.begin(), prompt.begin() + 140);
    CHECK(tokens_of(*first, {}, sampled(50, 4)) == tokens_of(*open(*plain), kept, sampled(50, 4)));
  }
}

TEST_CASE("fork: an empty session, a full one, and one that generates") {
  const auto engine = load_forking(kModel, 128, true);
  const auto empty = open(*engine);
  const auto copy = fork(*empty);
  CHECK(copy->length() == 0);
  const std::vector<int32_t> expected = tokens_of(*open(*engine), kPrompt, sampled(20));
  CHECK(tokens_of(*copy, kPrompt, sampled(20)) == expected);
  CHECK(tokens_of(*empty, kPrompt, sampled(20)) == expected);

  const auto full = open(*engine);
  const auto filled = full->generate(text(100, 1), sampled(-1), {});
  REQUIRE(filled.has_value());
  CHECK(filled->reason == FinishReason::context);
  const int64_t length = full->length();
  const auto other = fork(*full);
  CHECK(other->length() == length);
  CHECK(other->room() == full->room());
  for (Session* session : {other.get(), full.get()}) {
    const auto more = session->generate(text(5, 1), sampled(5), {});
    REQUIRE(!more.has_value());
    CHECK(more.error().code() == StatusCode::does_not_fit);
    CHECK(session->length() == length);
    REQUIRE(session->truncate(100).ok());
  }
  CHECK(tokens_of(*other, {}, sampled(10)) == tokens_of(*full, {}, sampled(10)));

  REQUIRE(full->truncate(0).ok());
  REQUIRE(full->start(kPrompt, sampled(20)).ok());
  const auto refused = full->fork();
  REQUIRE(!refused.has_value());
  CHECK(refused.error().code() == StatusCode::invalid_argument);
}

TEST_CASE("fork: after a shifted context both draw what the other draws") {
  for (const std::string& path : {kModel, kWindowModel, kRecurrentModel}) {
    CAPTURE(path);
    const auto engine = load_forking(path, 128, true);
    GenerateOptions options = sampled(150);
    options.overflow = ContextOverflow::shift;
    options.keep = 10;
    const auto first = open(*engine);
    REQUIRE(tokens_of(*first, text(100, 2), options).size() == 150);
    REQUIRE(first->statistics().shifted_tokens > 100);
    const auto second = fork(*first);
    const std::vector<int32_t> expected = tokens_of(*first, {}, options);
    CHECK(expected.size() == 150);
    CHECK(tokens_of(*second, {}, options) == expected);
    CHECK(second->length() == first->length());
  }
}

TEST_CASE("fork: more of them than the cache holds take turns, also at the same time") {
  for (const std::string& path : {kModel, kWindowModel, kRecurrentModel}) {
    CAPTURE(path);
    const auto engine = load_forking(path, 256, true);
    const auto plain = load_forking(path, 256, false);
    const std::vector<int32_t> prompt = text(150, 1);
    std::vector<std::unique_ptr<Session>> sessions;
    sessions.push_back(open(*engine));
    REQUIRE(sessions[0]->evaluate(prompt, {}).ok());
    for (int i = 1; i < 5; ++i) sessions.push_back(fork(*sessions[0]));
    std::vector<std::future<std::vector<int32_t>>> texts;
    for (size_t i = 0; i < sessions.size(); ++i) {
      texts.push_back(std::async(std::launch::async,
                                 [&, i] { return tokens_of(*sessions[i], {}, sampled(90, i)); }));
    }
    for (size_t i = 0; i < sessions.size(); ++i) {
      CAPTURE(i);
      CHECK(texts[i].get() == tokens_of(*open(*plain), prompt, sampled(90, i)));
    }
  }
}

TEST_CASE("fork: it outlives the session, and can be saved") {
  const TempDir folder;
  const auto engine = load_forking(kModel, 512, false);
  auto first = open(*engine);
  const std::vector<int32_t> held =
      joined(text(100, 1), tokens_of(*first, text(100, 1), sampled(30)));
  const auto second = fork(*first);
  first.reset();
  REQUIRE(second->save(folder.path("fork")).ok());
  const auto restored = open(*engine);
  REQUIRE(restored->restore(folder.path("fork")).ok());
  const auto third = fork(*restored);
  const std::vector<int32_t> expected = tokens_of(*open(*engine), held, sampled(40, 9));
  for (Session* session : {second.get(), restored.get(), third.get()}) {
    CHECK(tokens_of(*session, {}, sampled(40, 9)) == expected);
  }
}
