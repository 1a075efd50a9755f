// Review of sessions that share a cache: each case is a scenario that is to hold and did not at
// c609b2a.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <future>
#include <thread>

#include "engine/session/engine_impl.h"
#include "tests/api/model.h"

using namespace infer;
using namespace infer::test;
using namespace std::chrono_literals;

namespace {

std::unique_ptr<Engine> load_with(int64_t context, int32_t rows, const std::string& path = kModel) {
  LoadOptions options;
  options.threads = 2;
  options.context = context;
  options.batch_rows = rows;
  auto engine = Engine::load(path, options);
  REQUIRE_MESSAGE(engine.has_value(), engine.error().message());
  return *std::move(engine);
}

std::vector<int32_t> text(int64_t length, int32_t seed) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < length; ++i) {
    tokens.push_back(static_cast<int32_t>(3 + (i * 7 + seed * 13) % 50));
  }
  return tokens;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_file(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

/// A saved session with a number of its header changed, under a right checksum.
void forge(const std::string& path, size_t at, int64_t value) {
  std::string content = read_file(path);
  std::memcpy(content.data() + at, &value, sizeof(value));
  const uint64_t sum = XXH3_64bits(content.data(), content.size() - sizeof(sum));
  std::memcpy(content.data() + content.size() - sizeof(sum), &sum, sizeof(sum));
  write_file(path, content);
}

GenerateOptions endless() {
  GenerateOptions options = sampled(-1);
  options.overflow = ContextOverflow::shift;
  return options;
}

}  // namespace

TEST_CASE("two prompts of one step for which the cache has no room: one waits, none fails") {
  const auto engine = load_with(512, 512);
  const auto one = open(*engine);
  const auto two = open(*engine);
  engine->impl().hold(true);
  const auto run = [](Session& session, int32_t seed) {
    const auto result = session.generate(text(300, seed), sampled(5), {});
    return result ? std::string("ok") : result.error().message();
  };
  auto first = std::async(std::launch::async, [&] { return run(*one, 1); });
  auto second = std::async(std::launch::async, [&] { return run(*two, 2); });
  std::this_thread::sleep_for(200ms);
  engine->impl().hold(false);
  CHECK(first.get() == "ok");
  CHECK(second.get() == "ok");
}

TEST_CASE("cancelled while a shifted context is computed anew: no token that was told is lost") {
  const auto engine = load_with(128, 8);
  REQUIRE(engine->resize_cache(4 * engine->memory().kv).ok());
  const auto shifting = open(*engine);
  const auto other = open(*engine);
  const std::vector<int32_t> prompt = text(100, 2);
  std::atomic<int> told{0};
  int seen = 0, still = 0;
  GenerateOptions options = sampled(200);
  options.overflow = ContextOverflow::shift;
  options.keep = 10;
  engine->impl().hold(true);
  auto first = std::async(std::launch::async, [&] {
    return shifting
        ->generate(prompt, options,
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
  std::this_thread::sleep_for(200ms);
  engine->impl().hold(false);
  CHECK(first.get());
  CHECK(second.get());
  const GenerateResult& result = shifting->statistics();
  CHECK(result.reason == FinishReason::cancelled);
  CHECK(result.shifted_tokens > 0);
  CHECK(result.generated_tokens == told);
  CHECK(shifting->length() == 100 + told - result.shifted_tokens);
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

TEST_CASE("a pipe instead of a saved session does not stop the engine") {
  const TempDir folder;
  const std::string path = folder.path("pipe");
  REQUIRE(mkfifo(path.c_str(), 0600) == 0);
  const auto engine = load_with(512, 64);
  const auto session = open(*engine);
  const auto other = open(*engine);
  auto restored = std::async(std::launch::async, [&] { return session->restore(path).code(); });
  std::this_thread::sleep_for(200ms);
  auto running =
      std::async(std::launch::async, [&] { return tokens_of(*other, kPrompt, sampled(3)).size(); });
  CHECK(running.wait_for(3s) == std::future_status::ready);
  if (restored.wait_for(0s) != std::future_status::ready) {
    close(open(path.c_str(), O_WRONLY));  // lets it go
  }
  CHECK(restored.get() == StatusCode::io);
  CHECK(running.get() == 3);
}

TEST_CASE("numbers of a forged session that cannot be are refused") {
  const TempDir folder;
  const std::string path = folder.path("session");
  const auto engine = load_with(512, 64);
  const auto session = open(*engine);
  CHECK(tokens_of(*session, kPrompt, sampled(5)).size() == 5);
  REQUIRE(session->save(path).ok());
  forge(path, 40, INT64_MAX);  // shifted: the place of the next draw overflows
  CHECK(session->restore(path).code() == StatusCode::bad_file);
}

TEST_CASE("more tokens than the context holds are refused when restored") {
  const TempDir folder;
  const std::string path = folder.path("session");
  const auto large = load_with(512, 64);
  const auto session = open(*large);
  CHECK(tokens_of(*session, text(400, 1), sampled(5)).size() == 5);
  // Others take its pages, so that none are saved.
  CHECK(tokens_of(*open(*large), text(500, 2), sampled(5)).size() == 5);
  REQUIRE(session->save(path).ok());
  const auto small = load_with(128, 64);
  const auto target = open(*small);
  const Status status = target->restore(path);
  CHECK(status.code() == StatusCode::does_not_fit);
  CHECK(target->length() == 0);
}

TEST_CASE("a session of a model with another RoPE base is refused") {
  const TempDir folder;
  std::string model = read_file(kModel);
  const std::string key = "llama.rope.freq_base";
  const size_t at = model.find(key);
  REQUIRE(at != std::string::npos);
  const float base = 500000.0f;
  std::memcpy(model.data() + at + key.size() + 4, &base, sizeof(base));
  const std::string other_path = folder.path("other.gguf");
  write_file(other_path, model);

  const auto engine = load_with(512, 64);
  const auto other = load_with(512, 64, other_path);
  const auto session = open(*engine);
  CHECK(tokens_of(*session, text(100, 1), sampled(5)).size() == 5);
  REQUIRE(session->save(folder.path("session")).ok());
  CHECK(open(*other)->restore(folder.path("session")).code() == StatusCode::invalid_argument);
}

TEST_CASE("a session computed with the RoPE factors of another context is refused or the same") {
  const TempDir folder;
  const std::string path = data_path("golden/phi3-long-f32.gguf");
  const auto brief = load_with(32, 64, path);
  const auto lengthy = load_with(512, 64, path);
  const auto session = open(*brief);
  CHECK(tokens_of(*session, text(20, 1), sampled(2)).size() == 2);
  REQUIRE(session->save(folder.path("session")).ok());
  CHECK(open(*lengthy)->restore(folder.path("session")).code() == StatusCode::invalid_argument);
}

TEST_CASE("a cache that was made smaller stays so while sessions run") {
  LoadOptions options;
  options.threads = 2;
  const auto engine = Engine::load(kModel, options);
  REQUIRE(engine.has_value());
  const int64_t bytes = (*engine)->memory().kv / 8;
  REQUIRE((*engine)->resize_cache(bytes).ok());
  CHECK((*engine)->memory().kv <= bytes);
  const auto result = open(**engine)->generate(text(300, 1), sampled(2), {});
  CHECK((*engine)->memory().kv <= bytes);
}

TEST_CASE("who waits goes on as soon as the cache has been made larger") {
  const auto engine = load_with(128, 64);
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
  CHECK(second.wait_for(3s) == std::future_status::ready);
  running->cancel();
  CHECK(first.get());
  CHECK(second.get() == 5);
}

TEST_CASE("an emptied session draws like a fresh one") {
  const auto engine = load_with(128, 64);
  const auto used = open(*engine);
  GenerateOptions options = sampled(100);
  options.overflow = ContextOverflow::shift;
  CHECK(tokens_of(*used, text(100, 1), options).size() == 100);
  REQUIRE(used->truncate(0).ok());
  CHECK(tokens_of(*used, kPrompt, sampled(20)) == tokens_of(*open(*engine), kPrompt, sampled(20)));
}

TEST_CASE("the cache grows before sessions lose what they hold") {
  LoadOptions options;
  options.threads = 2;
  const auto engine = Engine::load(kModel, options);
  REQUIRE(engine.has_value());
  const int64_t context = (*engine)->memory().context;
  std::vector<std::unique_ptr<Session>> sessions;
  for (int i = 0; i < 3; ++i) {  // one after another: none is in use while the next is computed
    sessions.push_back(open(**engine));
    REQUIRE(sessions.back()->evaluate(text(context - 10, i), {}).ok());
  }
  Engine::Impl& impl = (*engine)->impl();
  int64_t cached = 0;
  impl.call([&] { cached = impl.cache->length(0); });
  CHECK(cached == context - 10);
}

TEST_CASE("a prompt finds its room although an idle session shares the page it goes on in") {
  const auto engine = load_with(512, 64);
  const auto idle = open(*engine);
  const auto session = open(*engine);
  GenerateOptions prompt_alone = sampled(0);
  REQUIRE(idle->generate(text(448, 1), prompt_alone, {}).has_value());
  REQUIRE(session->generate(text(449, 1), prompt_alone, {}).has_value());
  REQUIRE(session->truncate(400).ok());
  const auto result = session->generate(text(60, 2), prompt_alone, {});  // 460 of 512
  CHECK_MESSAGE(result.has_value(), result.error().message());
}

TEST_CASE("the cache is not made larger than what is free, counting what it has not touched yet") {
  LoadOptions options;
  options.threads = 2;
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
    (*engine)->impl().hold(true);
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
    std::this_thread::sleep_for(200ms);
    (*engine)->impl().hold(false);
    CHECK(first.get());
    CHECK(second.get());
    CHECK(at.load() < 50);  // its first logits came while the other generated
  }
}
