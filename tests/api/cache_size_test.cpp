// The size of the cache: what it may grow to, by itself and on request.
#include "engine/session/engine_impl.h"
#include "tests/api/model.h"

using namespace infer;
using namespace infer::test;

TEST_CASE("a cache that was made smaller stays so while sessions run") {
  LoadOptions options;
  options.threads = 1;
  const auto engine = Engine::load(kModel, options);
  REQUIRE(engine.has_value());
  const int64_t bytes = (*engine)->memory().kv / 8;
  REQUIRE((*engine)->resize_cache(bytes).ok());
  CHECK((*engine)->memory().kv <= bytes);
  (void)open(**engine)->generate(text(300, 1), sampled(2), {});
  CHECK((*engine)->memory().kv <= bytes);
}

TEST_CASE("memory() tells the pages that the cache has now") {
  const auto engine = load(1, 256);
  CHECK(engine->memory().pages == 4);
  CHECK(engine->memory().context == 256);
  CHECK(engine->memory().longest == 256);
  REQUIRE(engine->resize_cache(engine->memory().kv / 2).ok());
  CHECK(engine->memory().pages == 2);
  CHECK(engine->memory().context == 128);
  CHECK(engine->memory().longest == 256);
}

TEST_CASE("a session that shifts does so as well where the cache has too few pages") {
  const auto engine = load(1, 256);
  REQUIRE(engine->resize_cache(engine->memory().kv / 2).ok());
  for (const bool shifts : {false, true}) {
    CAPTURE(shifts);
    const auto session = open(*engine);
    GenerateOptions options = sampled(300);
    options.overflow = shifts ? ContextOverflow::shift : ContextOverflow::stop;
    options.keep = 2;
    for (int call = 0; call < 2; ++call) {
      CAPTURE(call);
      const auto result = session->generate(kPrompt, options, {});
      if (!shifts && call == 1) {  // nothing is left for a second one
        CHECK(!result.has_value());
        continue;
      }
      REQUIRE_MESSAGE(result.has_value(), result.error().message());
      CHECK(result->reason == (shifts ? FinishReason::length : FinishReason::context));
      CHECK((result->shifted_tokens > 0) == shifts);
      CHECK(session->length() <= 129);
    }
  }
  // A prompt that alone has more tokens than the cache.
  const auto session = open(*engine);
  GenerateOptions options = sampled(10);
  options.overflow = ContextOverflow::shift;
  const auto result = session->generate(text(200, 1), options, {});
  REQUIRE_MESSAGE(result.has_value(), result.error().message());
  CHECK(result->generated_tokens == 10);
  CHECK(result->shifted_tokens > 0);
}

TEST_CASE("a cache may be kept from growing by itself") {
  LoadOptions options;
  options.threads = 1;
  const auto engine = Engine::load(kModel, options);
  REQUIRE(engine.has_value());
  const MemoryReport memory = (*engine)->memory();
  const auto fill = [&] {  // with texts that later ones could begin with
    for (int i = 0; i < 3; ++i) {
      REQUIRE(open(**engine)->evaluate(text(memory.context - 10, i), {}).ok());
    }
  };
  (*engine)->limit_cache(memory.kv);
  fill();
  CHECK((*engine)->memory().kv == memory.kv);
  (*engine)->limit_cache(INT64_MAX);
  fill();
  CHECK((*engine)->memory().kv > memory.kv);
}

TEST_CASE("speculation works in a context of any length") {
  for (const int64_t context : {1, 2, 3, 8, 17, 31, 32, 33}) {
    CAPTURE(context);
    LoadOptions options;
    options.threads = 1;
    options.context = context;
    const auto generated = [&](std::vector<std::string> drafters) {
      options.drafters = std::move(drafters);
      const auto engine = load(options);
      GenerateOptions wanted = sampled(40);
      wanted.overflow = ContextOverflow::shift;
      std::vector<int32_t> tokens;
      const auto result = open(*engine)->generate(std::vector<int32_t>{1}, wanted,
                                                  [&](int32_t token, std::string_view) {
                                                    tokens.push_back(token);
                                                    return true;
                                                  });
      REQUIRE_MESSAGE(result.has_value(), result.error().message());
      return tokens;
    };
    const std::vector<int32_t> plain = generated({});
    CHECK(plain.size() == 40);
    CHECK(generated({"ngram", "suffix"}) == plain);
  }
}

TEST_CASE("the cache grows before sessions lose what they hold") {
  LoadOptions options;
  options.threads = 1;
  const auto engine = Engine::load(kModel, options);
  REQUIRE(engine.has_value());
  const int64_t context = (*engine)->memory().context;
  std::vector<std::unique_ptr<Session>> sessions;
  for (int i = 0; i < 3; ++i) {  // one after another: none is in use while the next is computed
    sessions.push_back(open(**engine));
    REQUIRE(sessions.back()->evaluate(text(context - 10, i), {}).ok());
  }
  Engine::Impl& impl = EngineAccess::impl(**engine);
  int64_t cached = 0;
  impl.thread->call([&] { cached = impl.cache->length(0); });
  CHECK(cached == context - 10);
}

TEST_CASE("the cache is not made larger than what is free, counting what it has not touched yet") {
  LoadOptions options;
  options.threads = 1;
  options.context = 64;
  const int64_t page = plan_model(kModel, options).value().page_bytes;
  const int64_t free = devices()[0].memory_free;
  options.context = free / 10 * 6 / page * 64;
  auto engine = Engine::load(kModel, options);
  REQUIRE_MESSAGE(engine.has_value(), engine.error().message());
  const Status status = (*engine)->resize_cache(free / 10 * 14);
  CHECK(status.code() == StatusCode::does_not_fit);
  CHECK((*engine)->memory().kv < free);
}

TEST_CASE("growing leaves the limit given when the model was loaded alone") {
  LoadOptions options;
  options.threads = 1;
  options.batch_rows = 16;  // the fewest: none are given up for a longer context
  const MemoryReport planned = plan_model(kModel, options).value();
  for (const int64_t more : {int64_t{0}, int64_t{3}, int64_t{5}}) {
    CAPTURE(more);
    options.memory_limit = planned.total + more * planned.page_bytes + 100;
    options.context = planned.context;  // as much as was planned, though the limit is short
    const auto fixed = Engine::load(kModel, options);
    REQUIRE_MESSAGE(fixed.has_value(), fixed.error().message());
    const int64_t most = planned.kv + more * planned.page_bytes;
    CHECK((*fixed)->resize_cache(most + planned.page_bytes).code() == StatusCode::does_not_fit);
    CHECK((*fixed)->memory().kv == planned.kv);
    CHECK((*fixed)->resize_cache(most).ok());
    CHECK((*fixed)->memory().kv == most);

    options.context = 0;
    const auto growing = Engine::load(kModel, options);
    REQUIRE_MESSAGE(growing.has_value(), growing.error().message());
    const int64_t context = (*growing)->memory().context;
    std::vector<std::unique_ptr<Session>> sessions;
    for (int i = 0; i < 6; ++i) {
      sessions.push_back(open(**growing));
      REQUIRE(sessions.back()->evaluate(text(context - 1, i), {}).ok());
    }
    const MemoryReport used = (*growing)->memory();
    CHECK(used.total <= options.memory_limit);
    CHECK(used.total + used.page_bytes > options.memory_limit);
  }
}
